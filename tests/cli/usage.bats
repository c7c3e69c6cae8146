# What is said about commands and options, and what happens when they make no sense: exit 2, and a message that names the
# option, the value and what would be right.
load common

COMMANDS="cert doctor export list load report serve speed tls"

# Options of a command as its help shows them, one a line: "name argument type", the last two "-" for a flag. Numbers, times
# and choices are of type "checked": not every text is one.
options_of() {
    pq "$1" --help | awk '
        function flush() {
            if (name != "")
                print name, argument, argument ~ /^(N|TIME|STATUS)$/ || text ~ /\(one of / ? "checked" : "-"
            name = ""
        }
        /^(  -|$)/ { flush() }
        /^  --/ { name = substr($1, 3); argument = $0 ~ /^  --[a-z0-9-]+ [A-Z]/ ? $2 : "-"; text = "" }
        { text = text " " $0 }'
}

@test "--help of every command: exit 0, at most 100 columns, usage, example, exit status" {
    run --separate-stderr pq --help
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "$(sed -n '/^Commands:/,/^$/p' <<<"$output" | awk '/^  / { print $1 }' | tr '\n' ' ')" = "$COMMANDS " ]
    for command in $COMMANDS; do
        run --separate-stderr pq "$command" --help
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        says "Usage: pqshake $command" "Options:" "-h, --help" "Example: pqshake $command" "Exit status: 0 done"
        [ "$output" = "$(pq help "$command")" ]
        [ "$output" = "$(pq "$command" -h)" ]
        awk 'length > 100 { print "more than 100 columns: " $0; bad = 1 } END { exit bad }' <<<"$output"
    done
    pq help >/dev/null
}

@test "--version is one line with version and commit" {
    run pq --version
    [ "$status" -eq 0 ]
    [[ $output =~ ^pqshake\ [0-9]+\.[0-9]+\.[0-9]+\ \([0-9a-f].*\)$ || $output =~ \(unknown\)$ ]]
}

@test "the manual page and the help name the same commands, and no option that does not exist" {
    page=$BATS_TEST_DIRNAME/../../docs/pqshake.1
    [ "$(awk '/^\.SH / { on = $2 == "COMMANDS" } on && term { print $2 } { term = on && $1 == ".TP" }' "$page" | sort | tr '\n' ' ')" \
        = "$COMMANDS " ]
    for command in $COMMANDS; do
        options_of "$command"
    done | cut -d' ' -f1 | sort -u >known
    printf '%s\n' help version >>known
    for option in $(grep -oE '\\-\\-[a-z][a-z\\-]*' "$page" | tr -d '\\' | sed 's/^--//' | sort -u); do
        grep -qx -- "$option" known || { echo "docs/pqshake.1: no such option: --$option"; false; }
    done
    for code in 0 1 2 3 4; do
        grep -qx "\.B $code" "$page"
    done
}

@test "commands and options that are none: exit 2, with the nearest that is one" {
    # wrong TEXT ARGUMENT...
    wrong() {
        run --separate-stderr pq "${@:2}"
        [ "$status" -eq 2 ] || { echo "exit status $status: ${*:2}"; return 1; }
        [ -z "$output" ] || { echo "on standard output: $output"; return 1; }
        says "$1"
    }
    run pq
    [ "$status" -eq 2 ]
    says "Usage: pqshake COMMAND" "which command?"
    wrong '"bogus" is no command: see pqshake --help' bogus
    wrong 'did you mean tls?' tlss
    wrong 'did you mean load?' lod
    wrong '"bogus" is no command' help bogus
    wrong 'unknown option --grups: did you mean --groups?' tls --grups X25519
    wrong 'unknown option --dur: did you mean --duration?' load --dur 1s
    wrong 'unknown option --zzzz: --help lists the options' serve --zzzz
    wrong 'unknown option -x' cert -x
    wrong 'unexpected argument "extra"' tls extra
    wrong 'no table "bogus": stacks, groups, certs, algorithms, verdicts or failures' list bogus
    wrong 'unexpected argument "more"' list groups more
}

@test "every option: a missing value, a value for a flag and a value of the wrong type are named" {
    # wrong TEXT ARGUMENT...
    wrong() {
        output=$(exec_pq "${@:2}" 2>&1) && status=0 || status=$?
        [ "$status" -eq 2 ] || { echo "exit status $status: ${*:2}"; return 1; }
        [[ $output == *"$1"* ]] || { echo "not said: $1"; echo "but: $output"; return 1; }
    }
    for command in load serve tls cert; do
        options_of "$command" >options
        [ "$(wc -l <options)" -ge 7 ]
        while read -r name argument type <&4; do
            if [ "$argument" = - ]; then
                wrong "$command: --$name takes no value, but \"1\" was given" "$command" "--$name=1"
            else
                wrong "$command: --$name needs a value: --$name $argument" "$command" "--$name"
            fi
            if [ "$type" = checked ]; then
                wrong "$command: --$name: \"bad@value\" is " "$command" "--$name" bad@value
            fi
        done 4<options
    done
    [ "$(grep -c checked options)" -eq 2 ] # cert: --days, --stack
}

@test "values out of range and lists with holes: the range, the choices, the syntax are told" {
    # wrong TEXT ARGUMENT...
    wrong() {
        run pq "${@:2}"
        [ "$status" -eq 2 ] || { echo "exit status $status: ${*:2}"; echo "$output"; return 1; }
        says "$1"
        [ ! -e runs ]
    }
    wrong '--rate: 0 is out of range: 0.01 to 10000000' tls --rate 0
    wrong '--blocks: 0 is out of range: 1 to 1000' tls --blocks 0
    wrong '--duration: "5" is not a duration: write a number and a unit' tls --duration 5
    wrong '--timeout: 0 is out of range: 1ms to 1h' load --timeout 0
    wrong '--arrivals: "uniform" is none of constant, poisson' tls --arrivals uniform
    wrong '--close: "x" is none of fin, rst' load --close x
    wrong '--seed: "-1" is not a whole number' tls --seed -1
    wrong '--expect: 99 is out of range: 100 to 599' load --expect 99
    wrong '--bytes: "64Mi1" is not a whole number' tls --bytes 64Mi1
    wrong '--bytes: 65Mi is out of range: 0 to 67108864' tls --bytes 65Mi
    wrong '--groups: "X25519,,X448" has an empty item' tls --groups X25519,,X448
    wrong 'level X25519 is given twice' tls --groups X25519,X25519
    wrong 'no certificate kind "nokind"; the kinds are ecdsa-p256' tls --cert nokind
    wrong 'no arm is named "nix": the baseline is one of "X25519", "X25519MLKEM768"' tls --baseline nix
    wrong '--listen: "8443" is not HOST:PORT' serve --listen 8443
    wrong '"99999" is not a port: 0 to 65535' load --target localhost:99999 --insecure
    wrong '--days: 0 is out of range: 1 to 36500' cert ecdsa-p256 --days 0
}

@test "options that do not go together: both are named" {
    wrong() {
        run pq "${@:2}"
        [ "$status" -eq 2 ] || { echo "exit status $status: ${*:2}"; echo "$output"; return 1; }
        says "$1"
    }
    wrong 'load needs --target HOST:PORT' load
    wrong '--target localhost:1 needs --ca FILE' load --target localhost:1
    wrong '--ca and --insecure exclude each other' load --target localhost:1 --ca x --insecure
    wrong '--client-cert and --client-key go together' load --target localhost:1 --insecure --client-cert x
    wrong '--cert is about pqshake' tls --target localhost:1 --ca x --cert ecdsa-p256
    wrong '--ca goes with --target' tls --ca x
    wrong '--engine null has no TLS' tls --engine null --groups X25519
    wrong '--handshake-only sends no request' tls --handshake-only --bytes 100
    wrong '--cert-file and --key-file go together' serve --cert-file x
    wrong 'choose one of them' serve --cert ecdsa-p256 --cert-file x --key-file y
    wrong 'each chain needs its key' serve --cert-file x,y --key-file z
    wrong '--self-signed has no CA' cert ecdsa-p256 --self-signed --ca-kind ecdsa-p256
    wrong 'which KIND?' cert
    wrong '--header "x" is not "Name: value"' tls --header x
}

@test "files that are not there: named with their option, exit 2" {
    for arguments in "load --target localhost:1 --ca" "serve --listen 127.0.0.1:0 --verify-client" \
        "serve --listen 127.0.0.1:0 --key-file nowhere.pem --cert-file"; do
        run pq $arguments nowhere.pem
        [ "$status" -eq 2 ]
        says "${arguments##* }: cannot open nowhere.pem" "No such file or directory"
    done
}

@test "list shows what this build supports, what verdicts mean and how connections fail" {
    run pq list groups
    [ "$status" -eq 0 ]
    grep -qE '^X25519MLKEM768 +yes +(yes|-) +1216 +1120 +hybrid$' <<<"$output"
    grep -qE '^X25519 +yes +(yes|-) +32 +32 +classical$' <<<"$output"
    grep -qE '^MLKEM1024 +yes +(yes|-) +1568 +1568 +pq$' <<<"$output"
    run pq list certs
    [ "$(awk '$2 == "yes"' <<<"$output" | wc -l)" -eq 9 ]
    run pq list verdicts
    for id in no-data generator-limited wrong-group unverified reconcile failures insecure handshake-only; do
        grep -q "^$id " <<<"$output"
    done
    run pq list FAILURES
    grep -q '^alert_handshake_failure ' <<<"$output"
    all=$(pq list)
    for table in stacks groups certs algorithms verdicts failures; do
        grep -qF "$(pq list "$table" | tail -n 1)" <<<"$all"
    done
}
