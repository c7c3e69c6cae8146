# pqshake cert: files, their modes, and that another program accepts them.
load common

@test "every kind: four files, keys for their owner only, and openssl verifies the chain" {
    run pq cert ecdsa-p256 ECDSA-P384 rsa-2048 rsa-3072 Ed25519 ML-DSA-44 ml-dsa-65 ML-DSA-87 --out certs
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 32 ]
    for kind in ecdsa-p256 ecdsa-p384 rsa-2048 rsa-3072 ed25519 ml-dsa-44 ml-dsa-65 ml-dsa-87; do
        cd "certs/$kind"
        [ "$(stat -c %a key.pem) $(stat -c %a ca-key.pem) $(stat -c %a cert.pem)" = "600 600 644" ]
        openssl verify -CAfile ca.pem -purpose sslserver -verify_hostname localhost -verify_ip 127.0.0.1 cert.pem
        [ "$(openssl pkey -in key.pem -pubout)" = "$(openssl x509 -in cert.pem -noout -pubkey)" ]
        openssl pkey -in ca-key.pem -noout
        cd ../..
    done
    # FIPS 204: the public key of ML-DSA-65 has 1952 bytes.
    openssl pkey -in certs/ml-dsa-65/key.pem -pubout -outform DER >public.der
    [ "$(($(wc -c <public.der) - 1952))" -le 32 ]
    [ "$(($(wc -c <public.der) - 1952))" -gt 0 ]
}

@test "rsa-4096, the slow one" {
    [ -n "${PQSHAKE_FULL:-}" ] || skip "only with ./check --full"
    pq cert rsa-4096 --out certs
    openssl verify -CAfile certs/rsa-4096/ca.pem certs/rsa-4096/cert.pem
}

@test "what is there is not overwritten, unless --force says so" {
    pq cert ecdsa-p256
    before=$(cat ecdsa-p256/key.pem)
    run pq cert ed25519 ECDSA-P256
    [ "$status" -eq 2 ]
    says "ecdsa-p256/cert.pem is there already" "--force" "--out"
    [ ! -e ed25519 ] # nothing was made before the check
    [ "$(cat ecdsa-p256/key.pem)" = "$before" ]
    chmod 644 ecdsa-p256/key.pem
    pq cert ecdsa-p256 --force
    [ "$(cat ecdsa-p256/key.pem)" != "$before" ]
    [ "$(stat -c %a ecdsa-p256/key.pem)" = 600 ]
    openssl verify -CAfile ecdsa-p256/ca.pem ecdsa-p256/cert.pem
}

@test "--self-signed, --ca-kind, --name, --san and --days" {
    run pq cert ecdsa-p256 --self-signed --name box --san DNS:box.example,IP:192.0.2.7 --days 2 --out self
    [ "$status" -eq 0 ]
    [ ! -e self/ecdsa-p256/ca-key.pem ]
    openssl verify -CAfile self/ecdsa-p256/cert.pem -verify_hostname box.example self/ecdsa-p256/cert.pem
    text=$(openssl x509 -in self/ecdsa-p256/cert.pem -noout -text)
    grep -q 'Subject: CN *= *box$' <<<"$text"
    grep -q 'DNS:box.example, IP Address:192.0.2.7' <<<"$text"
    openssl x509 -in self/ecdsa-p256/cert.pem -noout -checkend $((86400 * 2 - 7200))
    run openssl x509 -in self/ecdsa-p256/cert.pem -noout -checkend $((86400 * 2 + 7200))
    [ "$status" -eq 1 ]
    pq cert ecdsa-p256 --ca-kind ML-DSA-65 --out mixed
    openssl verify -CAfile mixed/ecdsa-p256/ca.pem mixed/ecdsa-p256/cert.pem
    openssl x509 -in mixed/ecdsa-p256/cert.pem -noout -text | grep -qi 'Signature Algorithm: ML-DSA-65'
    openssl x509 -in mixed/ecdsa-p256/cert.pem -noout -text | grep -qi 'Public Key Algorithm: id-ecPublicKey'
}

@test "kinds and names that are none, places that cannot be written" {
    run pq cert nokind
    [ "$status" -eq 2 ]
    says '"nokind"' 'ecdsa-p256, ecdsa-p384'
    run pq cert ecdsa-p256 --san nonsense
    [ "$status" -eq 2 ]
    says '"nonsense" is neither DNS:name nor IP:address'
    run pq cert a/b
    [ "$status" -eq 2 ]
    run pq cert ecdsa-p256 --out /proc/nowhere
    [ "$status" -ne 0 ]
    says "/proc/nowhere"
    touch file
    run pq cert ecdsa-p256 --out file
    [ "$status" -ne 0 ]
    says "file/ecdsa-p256"
}
