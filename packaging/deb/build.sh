#!/bin/sh
# Makes a package for Debian and Ubuntu of the file tree STAGED. dpkg-deb is there wherever releases are made, and the
# same files become the same bytes; cargo-deb or nfpm would be one more program to fetch.
set -eu
staged=$1 version=$2 architecture=$3 out=$4
here=$(dirname "$0")

doc=$staged/usr/share/doc/headwater
cp "$here/copyright" "$doc/copyright"
mkdir -p "$staged/usr/share/zsh/vendor-completions" "$staged/usr/share/lintian/overrides" "$staged/DEBIAN"
mv "$staged/usr/share/zsh/site-functions"/* "$staged/usr/share/zsh/vendor-completions"
rmdir "$staged/usr/share/zsh/site-functions"
cp "$here/lintian-overrides" "$staged/usr/share/lintian/overrides/headwater"
gzip -9n >"$doc/changelog.Debian.gz" <<EOF
headwater ($version-1) unstable; urgency=medium

  * What is new: /usr/share/doc/headwater/CHANGELOG.md

 -- The Headwater developers <developers@headwater.invalid>  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
EOF
# Libraries are not commands.
find "$staged/usr/lib" -name '*.so' -exec chmod a-x {} +

cat >"$staged/DEBIAN/control" <<EOF
Package: headwater
Version: $version-1
Architecture: $architecture
Maintainer: The Headwater developers <developers@headwater.invalid>
Section: net
Priority: optional
Installed-Size: $(du --apparent-size -sk "$staged/usr" | cut -f1)
Depends: libc6 (>= 2.28)
Recommends: fuse3
Suggests: libfabric1, lmod
Description: starts parallel programs without a storm of file requests
 The processes of a job search for and read the same libraries, modules and
 small files. Headwater reads each of them once from the shared file system,
 sends it down trees of per-node daemons, and each process finds it in
 node-local memory under its original path.
EOF
echo /etc/headwater/site.conf >"$staged/DEBIAN/conffiles"
echo 'activate-noawait ldconfig' >"$staged/DEBIAN/triggers"
install -m 755 "$here/prerm" "$here/postrm" "$staged/DEBIAN"
(cd "$staged" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$staged"
dpkg-deb --root-owner-group -Zxz --build "$staged" "$out"
