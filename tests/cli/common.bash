# What all end-to-end tests share. PQSHAKE is the built program, OPENSSL the openssl command of the library it uses.
# Every process that a test starts carries an environment variable of that test, has a time limit, and is gone at its end.
bats_require_minimum_version 1.5.0
: "${PQSHAKE:?path of the built pqshake}" "${OPENSSL:=openssl}"
unset PQSHAKE_WORKER_DIR # of whoever runs the tests

setup() {
    MARK=PQSHAKE_TEST=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
    stop_all
    no_processes
}

IN=() # a command that pqshake is started through: into a namespace, as another user

# network: a network namespace of this test, empty but for its loopback, that pqshake is started in from now on.
network() {
    unshare --net true 2>/dev/null || skip "cannot make a network namespace"
    (exec env "${MARK:?}" unshare --net sleep 600 3>&-) &
    local holder=$!
    SERVERS+=("$holder")
    apart() { [ -e "/proc/$holder/ns/net" ] && ! [ "/proc/$holder/ns/net" -ef /proc/self/ns/net ]; }
    wait_for 10 apart
    IN=(nsenter "--net=/proc/$holder/ns/net")
    "${IN[@]}" ip link set lo up
}

# STACKS="CLIENT SERVER" of whoever runs the tests: the TLS stacks that every command of a test uses, instead of the default.
: "${STACKS:=openssl openssl}"
CLIENT_STACK=${STACKS% *} SERVER_STACK=${STACKS#* }
# For what only OpenSSL can do: the syntax of its lists, its choice of a key share.
needs_openssl() {
    [ "$STACKS" = "openssl openssl" ] || skip "with $STACKS: this is about OpenSSL"
}
# An OpenSSL client that refuses a certificate says so in the clear, which AWS-LC does not take for an alert (docs/STACKS.md).
plain_alert() {
    [ "$SERVER_STACK" = aws-lc ] && grep -qE '^failed.protocol +[1-9]' server.out
}
stacks_of() {
    [ "$STACKS" != "openssl openssl" ] || return 0
    case $1 in
    tls | load) echo "--client-stack $CLIENT_STACK" ;;&
    tls) case " $* " in *" --target "*) ;; *) echo "--server-stack $SERVER_STACK" ;; esac ;;
    serve) echo "--server-stack $SERVER_STACK" ;;
    esac
}

# pq ARGUMENT...: pqshake, ended after $LIMIT seconds (a limit that only something stuck can reach).
pq() {
    (exec_pq "$@")
}

# The same for use behind ( ... ) &, where $! must be the process that takes signals: timeout hands them on.
exec_pq() {
    exec env "${MARK:?}" timeout --foreground --kill-after 10 "${LIMIT:-90}" "${IN[@]}" "$PQSHAKE" "$@" $(stacks_of "$@") 3>&-
}

openssl() {
    (exec_openssl "$@")
}

exec_openssl() {
    exec env "${MARK:?}" timeout --foreground --kill-after 10 "${LIMIT:-90}" "$OPENSSL" "$@" 3>&-
}

# Processes of this test, one pid a line; with an argument only those whose command line has that in it.
marked() {
    local environ p
    # Without a mark it would find, and no_processes kill, whoever has an empty string in the environment: sshd, for one.
    [ -n "${MARK-}" ] || return 0
    for environ in $(grep -lzxF "$MARK" /proc/[0-9]*/environ 2>/dev/null); do
        p=${environ//[^0-9]/}
        [ $# -eq 0 ] || grep -qF -- "$1" <<<"$(tr '\0' ' ' 2>/dev/null </proc/"$p"/cmdline)" && echo "$p"
    done
    return 0
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS > end)); then
            echo "waited in vain for: $*"
            return 1
        fi
        sleep 0.05
    done
}

no_marked() {
    [ -z "$(marked "$@")" ]
}

# Nothing of this test is left; what is left is named, ended, and a failure.
no_processes() {
    local p left
    wait_for 5 no_marked && return
    for p in $(marked); do
        left="$left $(tr '\0' ' ' </proc/"$p"/cmdline) ($p);"
        kill -KILL "$p" 2>/dev/null
    done
    echo "left behind: $left"
    return 1
}

# not COMMAND...: fails when the command succeeds, wherever it stands (bash lets a failing "! command" pass).
not() {
    ! "$@"
}

# ---- servers in the background ----

SERVERS=()

# serve NAME OPTION...: pqshake serve; its output goes to NAME.out, its CA to NAME-ca.pem, its port to PORT.
serve() {
    local name=$1
    shift
    (exec_pq serve --listen 127.0.0.1:0 --ca-out "$name-ca.pem" "$@") >"$name.out" 2>&1 &
    SERVER=$!
    SERVERS+=("$SERVER")
    wait_for 30 grep -q '^groups: \|^listening.*' "$name.out" || { cat "$name.out"; return 1; }
    PORT=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$name.out")
}

# Ends the last server in order: its counters are in NAME.out then.
stop_server() {
    kill -TERM "$SERVER"
    wait "$SERVER"
}

# A free port, for servers that cannot choose one themselves.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# foreign NAME OPTION...: openssl s_server on 127.0.0.1, its output in NAME.out, its port in PORT.
foreign() {
    local name=$1
    shift
    PORT=$(free_port)
    (exec_openssl s_server -accept "127.0.0.1:$PORT" -tls1_3 "$@") >"$name.out" 2>&1 </dev/null &
    SERVER=$!
    SERVERS+=("$SERVER")
    wait_for 30 grep -q ACCEPT "$name.out" || { cat "$name.out"; return 1; }
}

stop_all() {
    local s
    for s in "${SERVERS[@]}"; do
        kill -TERM "$s" 2>/dev/null
        wait "$s" || true
    done
    SERVERS=()
    return 0
}

# ---- what was measured ----

# Short runs: enough to count, too short for figures. A test that needs another value gives it again: the last one wins.
BRIEF=(--rate 50 --duration 1s --warmup 100ms --blocks 1)

# Whether this machine has more to do than its CPUs can: then a generator that is late is no fault of the program.
busy_machine() {
    awk -v cpus="$(getconf _NPROCESSORS_ONLN)" '{ exit !($1 > 0.7 * cpus) }' /proc/loadavg
}

# measured FILE: the run did what was asked and its data is sound, except that a loaded machine may have made it late: then
# every connection was started all the same.
measured() {
    [ "$status" -eq 0 ] && return
    [ "$status" -eq 4 ] &&
        check "$1" '[.findings[] | select(.severity == "unfit") | .id] - ["generator-limited", "generator-late", "overloaded", "short-window"] == []' &&
        check "$1" 'all(.arms[].counts; .started == .scheduled)' && return
    echo "exit status $status"
    echo "$output"
    echo "$stderr"
    return 1
}

# check FILE EXPRESSION [jq option...]: a jq expression that must be true.
check() {
    local file=$1 expression=$2
    shift 2
    jq -e "$@" "$expression" "$file" >/dev/null && return
    echo "not true of $file: $expression"
    jq -c "$@" '{verdict, plan, arms: [.arms[] | {name, verdict, reasons, counts, negotiated, bytes}], findings: [.findings[].id]}' \
        "$file"
    return 1
}

# Every arm's counts agree with each other.
reconciled() {
    check "$1" 'all(.arms[]; .counts | .scheduled == .started + .dropped + .unstarted
                                  and .started == .completed + ([.failed[]] | add // 0))'
}

# Follows the documented schema.
valid_summary() {
    local violations
    violations=$(jq -r --slurpfile schema "$BATS_TEST_DIRNAME/../../docs/summary.schema.json" \
        -f "$BATS_TEST_DIRNAME/schema.jq" "$1") && [ -z "$violations" ] && return
    echo "$1: $violations"
    return 1
}

sql() {
    sqlite3 "$1/run.db" "$2"
}

# samples DIR "SQL CONDITION": the packed samples of the trials t of arms a (docs/RESULTS.md), one a line:
# scheduled started tcp tls first done to_server to_client failure class
samples() {
    local raw
    raw=$(mktemp -d -p "$BATS_TEST_TMPDIR")
    sqlite3 "$1/run.db" "select writefile(printf('$raw/%06d.%06d', t.id, s.chunk), s.blob) from sample s
        join trial t on t.id = s.trial join arm a on a.id = t.arm where $2" >"$raw/sizes"
    rm "$raw/sizes"
    cat "$raw"/* | od -An -v -t u8 -w64 | awk '{
        to_client = int($7 / 4294967296)
        print $1, $2, $3, $4, $5, $6, $7 - to_client * 4294967296, to_client, $8 % 65536, int($8 / 16777216) % 256 }'
}

# says TEXT...: each of the texts is in what the last `run` printed, whatever the line breaks.
says() {
    local text all
    all=$(printf '%s\n%s' "$output" "$stderr" | tr '\n' ' ' | tr -s ' ')
    for text; do
        case $all in
        *"$text"*) ;;
        *)
            printf 'not said: %s\nbut: %s\n' "$text" "$output$stderr"
            return 1
            ;;
        esac
    done
}

# No table of figures was printed.
no_figures() {
    not grep -E 'Request latency|p50|/s' <<<"$output" && [ ! -e out ]
}
