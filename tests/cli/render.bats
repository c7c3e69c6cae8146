# report and export: a run once more from its run.db alone, and its raw data.
load common

small_run() {
    run pq tls "${BRIEF[@]}" --blocks 2 --out out --json s.json
    measured s.json
}

@test "report prints what the run printed, from run.db alone" {
    small_run
    ran=$status
    mkdir copy
    cp out/run.db copy
    run --separate-stderr pq report copy
    [ "$status" -eq "$ran" ]
    [ "$output" = "$(cat out/summary.md)" ]
    [ "$(ls copy)" = run.db ]
    run --separate-stderr pq report copy --json -
    [ "$output" = "$(cat out/summary.json)" ]
    run pq report copy --json again.json --write
    cmp again.json out/summary.json
    cmp copy/summary.json out/summary.json
    cmp copy/summary.md out/summary.md
    says "Results: copy (run.db, summary.json, summary.md)"
}

@test "report of a killed run: its finished trials, marked as interrupted" {
    (exec_pq tls --rate 50 --duration 1s --warmup 100ms --blocks 50 --out out) >run.out 2>&1 &
    RUN=$!
    SERVERS+=("$RUN")
    two() { [ -e out/run.db ] && [ "$(sql out 'select count(*) from trial' 2>/dev/null || echo 0)" -ge 2 ]; }
    wait_for 60 two
    kill -KILL $(marked "$PQSHAKE tls")
    wait "$RUN" || true
    [ ! -e out/summary.json ]
    run pq report out --json s.json
    measured s.json
    valid_summary s.json
    check s.json '[.findings[].id] | index("interrupted") != null'
    check s.json '[.arms[].trials[]] | length >= 2'
    says "Request latency" "interrupted"
}

@test "report and export: no run, another file, no choice, an output that cannot be: what is wrong" {
    # wrong STATUS TEXT ARGUMENT...
    wrong() {
        run pq "${@:3}"
        [ "$status" -eq "$1" ] || { echo "exit status $status: ${*:3}"; return 1; }
        says "$2"
    }
    wrong 2 'report: which DIR?' report
    wrong 2 'export: which DIR?' export --samples
    wrong 2 'export needs one of --samples and --histograms' export .
    wrong 2 'export needs one of --samples and --histograms' export . --samples --histograms
    wrong 2 'reading nowhere/run.db' report nowhere
    wrong 2 'reading nowhere/run.db' export nowhere --samples --out samples.csv
    [ ! -e samples.csv ]
    wrong 2 '--json: cannot write to nowhere/s.json' report . --json nowhere/s.json
    wrong 2 '--out: cannot write to nowhere/s.csv' export . --samples --out nowhere/s.csv
    sqlite3 run.db 'create table t (x)'
    wrong 2 'not a run of pqshake' report .
}

@test "report of a run without data: exit 4" {
    small_run
    sqlite3 out/run.db "delete from sample; delete from histogram; delete from counter; delete from fact; delete from trial"
    run pq report out
    [ "$status" -eq 4 ]
    says "no-trial" "unfit for the question"
}

@test "export --samples: one row per started connection, instants in order, failed ones without an end" {
    # The server goes away in the window.
    serve target
    (exec_pq load --target "localhost:$PORT" --ca target-ca.pem --rate 50 --duration 4s --warmup 100ms --timeout 500ms \
        --out out) >run.out 2>&1 &
    RUN=$!
    SERVERS+=("$RUN")
    wait_for 60 test -e out/run.db # after the first preflight
    sleep 2
    stop_server
    wait "$RUN" || [ $? -eq 4 ]
    pq export out --samples --out samples.csv
    [ "$(head -n 1 samples.csv | tr -d '\r')" = "block,arm,position,scheduled_ns,started_ns,tcp_ns,tls_ns,first_ns,done_ns,to_server_bytes,to_client_bytes,class,failed_step,failure,thread" ]
    [ "$(grep -c $'\r$' samples.csv)" -eq "$(wc -l <samples.csv)" ] # no arm's name has a line break
    sqlite3 -batch :memory: ".import --csv samples.csv s" "select * from (
        select count(*), sum(failure = ''), sum(failure <> ''), sum(failure <> '' and done_ns <> ''),
            sum(failure = '' and (started_ns = '' or 0 + started_ns > 0 + tcp_ns or 0 + tcp_ns > 0 + tls_ns or
                0 + tls_ns > 0 + first_ns or 0 + first_ns > 0 + done_ns)),
            sum(failure = '' and class <> 'full') from s)" >counts
    sql out "select (select value from counter where name = 'started'), (select value from counter where name = 'completed'
        and side = 'client'), (select value from counter where name = 'failed' and side = 'client'), 0, 0, 0" >want
    diff counts want
    [ "$(cut -d'|' -f3 want)" -gt 0 ]
    [ "$(cut -d'|' -f2 want)" -gt 0 ]
    sqlite3 -batch :memory: ".import --csv samples.csv s" "select 'failed.' || failed_step || '.' || failure, count(*) from s
        where failure <> '' group by 1 order by 1" >classes
    sql out "select name, value from counter where name like 'failed.%' and value > 0 order by 1" | diff classes -
    cmp samples.csv <(pq export out --samples)
}

@test "export --samples and --histograms of several arms and blocks agree with run.db" {
    run pq tls "${BRIEF[@]}" --blocks 2 --cert ecdsa-p256 --groups X25519,X448:X25519 --out out --json s.json
    measured s.json
    pq export out --samples | tr -d '\r' | awk -F, 'NR > 1 { n[$1 "|" $2 "|" $3]++ } END { for (k in n) print k "|" n[k] }' |
        sort >rows
    sql out "select block, arm.name, position, value from trial join arm on arm.id = arm join counter on trial = trial.id
        where counter.name = 'started' and side = 'client'" | sort | diff rows -
    pq export out --histograms --out log
    head -n 4 log | grep -qxF '#[Histogram log format version 1.3]'
    grep '^Tag=' log | cut -d, -f1 | sort >tags
    sql out "select 'Tag=' || arm.name || '/' || class || '/' || phase from histogram join trial on trial.id = trial
        join arm on arm.id = arm order by 1" | LC_ALL=C sort | diff <(LC_ALL=C sort tags) -
}
