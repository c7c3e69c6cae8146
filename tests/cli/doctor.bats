# doctor: what is found out about this machine, and the exit status that follows from it.
load common

# What doctor says must be consistent, whatever machine this is.
consistent() {
    jq -e '.schema == "pqshake/doctor/1" and (.checks | length) >= 20 and .fit == all(.checks[]; .level != "spoils")
        and all(.checks[]; (.level == "unknown") == (.text == null)
            and (.level == "note" or .level == "spoils") == (.spoils != null and .mend != null))' "$1" >/dev/null ||
        { cat "$1"; return 1; }
}

@test "doctor: every check in the text and in the JSON, exit 4 when something spoils measurements" {
    run --separate-stderr pq doctor --json d.json
    consistent d.json
    if [ "$(jq .fit d.json)" = true ]; then
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
    else
        [ "$status" -eq 4 ]
        [[ $stderr == *"not fit to measure"* ]]
    fi
    [ "$(grep -cE '^[^ ].{17}  (fine|unknown|note|spoils) ' <<<"$output")" -eq "$(jq '.checks | length' d.json)" ]
    [ "$(grep -c 'To mend it' <<<"$output")" -eq "$(jq '[.checks[] | select(.mend)] | length' d.json)" ]
    run --separate-stderr pq doctor --json -
    jq -r '.checks[].id' <<<"$output" | diff - <(jq -r '.checks[].id' d.json)
}

@test "doctor: facts are those of the system" {
    pq doctor --json d.json >/dev/null || [ $? -eq 4 ]
    is() { [ "$(jq -r ".facts.$1" d.json)" = "$2" ] || { echo "$1: $(jq ".facts.$1" d.json), not $2"; return 1; }; }
    is kernel "$(uname -r)"
    is cpus_online "$(getconf _NPROCESSORS_ONLN)"
    is fd_limit "$(ulimit -Sn)"
    is congestion_control "$(cat /proc/sys/net/ipv4/tcp_congestion_control)"
    is somaxconn "$(cat /proc/sys/net/core/somaxconn)"
    is library_version "$(openssl version | cut -d' ' -f1-5)"
    check_fact() { jq -e ".facts | $1" d.json >/dev/null || { jq .facts d.json; return 1; }; }
    check_fact '(.clock_read_ns | tonumber) > 1 and (.timer_late_p50_ns | tonumber) <= (.timer_late_p95_ns | tonumber)'
    check_fact '(.sample_ms | tonumber) >= 200 and (.uptime_ms | tonumber) > 0'
    check_fact '(.initial_window | tonumber) >= 1'
    case $(jq -r .facts.namespaces d.json) in
    yes) unshare -Un true ;;
    *) not unshare -Un true ;;
    esac
}

@test "doctor sees few descriptors, one CPU, a busy neighbour and a changed library" {
    run bash -c 'ulimit -n 100; exec env "$0" timeout --foreground 60 "$@"' "$MARK" "$PQSHAKE" doctor --json d.json
    jq -e '.checks[] | select(.id == "descriptors") | .level == "note" and (.text | startswith("100 of"))' d.json
    run taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" env "$MARK" "$PQSHAKE" doctor --json d.json
    [ "$status" -eq 4 ]
    jq -e '.checks[] | select(.id == "cores") | .level == "spoils"' d.json
    env "$MARK" timeout 20 sh -c 'while :; do :; done' 3>&- &
    SERVERS+=($!)
    run pq doctor --json d.json
    [ "$status" -eq 4 ]
    jq -e '.checks[] | select(.id == "neighbours") | .level == "spoils"' d.json
    if [[ $(uname -m) == x86_64 ]]; then
        OPENSSL_ia32cap='~0x200000200000000' run pq doctor --json d.json
        jq -e '.checks[] | select(.id == "code") | .level == "spoils" and (.text | contains("env:"))' d.json
    fi
}

@test "doctor without a worker: everything else is told, exit 3" {
    mkdir empty
    PQSHAKE_WORKER_DIR=$PWD/empty run pq doctor --json d.json
    [ "$status" -eq 3 ]
    says "nothing can be measured here" "pqshake-worker-openssl" "Cores"
    jq -e '.checks[] | select(.id == "library") | .level == "unknown"' d.json
    run pq doctor --json nowhere/d.json
    [ "$status" -eq 2 ]
    says "--json: cannot write to nowhere/d.json"
}

@test "a run's workers record the machine before and after, and steal as a verdict row" {
    run pq tls "${BRIEF[@]}" --groups X25519 --out out --json s.json
    measured s.json
    valid_summary s.json
    for side in client server; do
        check s.json '.environment[$side] | (.machine_after.uptime_ms | tonumber) > (.machine.uptime_ms | tonumber)
            and (.machine_after | has("load1")) and (.machine_after | has("kernel") | not)' --arg side "$side"
    done
    [ "$(sql out "select count(distinct side) from fact where name = 'env_after.uptime_ms'")" -eq 2 ]
    # As if the host had taken 10 s: recomputed from run.db.
    sql out "update fact set value = value + 10000 where name = 'env_after.steal_ms'"
    run pq report out
    says "warning, steal" "machine's CPU time was stolen"
}

@test "a run carries what doctor warns of, from the facts that its workers took" {
    run pq doctor --json doctor.json
    run pq tls --groups X25519 --blocks 1 --duration 200ms --warmup 0 --rate 50 --out out --json s.json
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ]
    seen=0
    # Of what does not move between the two commands.
    for id in governor turbo virtual congestion; do
        title=$(jq -r --arg id $id '.checks[] | select(.id == $id and (.level == "note" or .level == "spoils"))
            | "\(.text). \(.spoils)"' doctor.json)
        [ -n "$title" ] || continue
        seen=$((seen + 1))
        jq -e --arg title "$title" '[.environment.warnings[] | select(endswith($title))] | length == 1' s.json
    done
    [ "$seen" -gt 0 ] || skip "doctor has nothing to say of this machine"
    jq -e '.environment.warnings | all(test("^(client|server|both): "))' s.json
}
