# Sourced by tools/deps and tools/peers: where this machine's own apt fetches its distribution from.
# Knows neither what is wanted from there nor how it is fetched. Needs lacking().
# shellcheck shell=sh

# find_archives LISTS LOG WHAT: sets distribution (debian or ubuntu), codename, keyring and the addresses
# main_archives and security_archives. LISTS is an empty directory of the caller, WHAT what cannot be had
# when this ends in lacking().
find_archives() {
    command -v apt-get >/dev/null || lacking "cannot fetch $3: this is not a machine with apt."

    ID='' ID_LIKE='' VERSION_CODENAME='' DEBIAN_CODENAME='' UBUNTU_CODENAME=''
    # shellcheck disable=SC1091
    [ ! -r /etc/os-release ] || . /etc/os-release
    case "$UBUNTU_CODENAME $ID $ID_LIKE" in
    ' '*debian*) distribution=debian codename=${DEBIAN_CODENAME:-${VERSION_CODENAME:-sid}} ;;
    [a-z]*) distribution=ubuntu codename=$UBUNTU_CODENAME ;;
    *) lacking "cannot fetch $3: neither Debian nor Ubuntu." ;;
    esac

    for keyring in /usr/share/keyrings/$distribution-archive-keyring.pgp /usr/share/keyrings/$distribution-archive-keyring.gpg; do
        [ ! -e "$keyring" ] || break
    done
    [ -e "$keyring" ] || lacking "cannot verify $3: the package with $keyring is not installed."

    # Asks apt for what an update would get, which needs neither the network nor lists from an earlier update.
    would_get=$(apt-get -o Dir::State::lists="$1" update --print-uris 2>>"$2") || true
    main_archives='' security_archives=''
    for candidate in "$codename" stable oldstable testing unstable sid; do
        main_archives=$(archives_with "$candidate")
        # shellcheck disable=SC2034
        security_archives=$(archives_with "$candidate-security")
        [ -z "$main_archives" ] || break
    done
    [ -n "$main_archives" ] || lacking "cannot fetch $3: apt has no $distribution mirror for $codename."
}

# The addresses of the archives that have a suite. A stranger's archive with a suite of the same name does
# no harm: its other suites are missing or not signed with the distribution's key.
archives_with() {
    echo "$would_get" | sed -n "s,^'\(.*\)/dists/$1/InRelease' .*,\1,p" | sort -u
}
