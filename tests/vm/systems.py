# SPDX-License-Identifier: Apache-2.0
"""The systems of the matrix: which packages an image is made of, and the state that its guest is booted into."""
from dataclasses import dataclass

DEBIAN = 'http://deb.debian.org/debian'
UBUNTU = 'http://archive.ubuntu.com/ubuntu'

# Systemd as an installer sets it up, ways to log in, what the cases use, and the libraries that cay's packages depend on: no guest has a network.
PACKAGES = '''
    systemd-sysv dbus dbus-user-session libpam-systemd udev kmod procps iproute2 initramfs-tools apparmor sudo uidmap openssh-server openssh-client
    ca-certificates curl git jq python3 bubblewrap busybox-static e2fsprogs xfsprogs btrfs-progs nftables
    libcurl4 libarchive13 libsqlite3-0 libjansson4 libssl3 libzstd1 zlib1g libedit2 libmd4c0 libwslay1
'''.split()


@dataclass(frozen=True)
class Image:
    """The packages that mmdebstrap makes a disk of."""
    suite: str
    sources: tuple
    kernel: str = 'linux-image-amd64'
    arch: str = 'amd64'
    keyring: str = ''
    without: tuple = ()

    def packages(self):
        return sorted({*PACKAGES, self.kernel} - set(self.without))


@dataclass(frozen=True)
class System:
    """An image, kernel parameters, and a line of shell that root runs before cay is installed."""
    image: str
    title: str
    append: str = ''
    setup: str = ''
    optional: bool = False


def debian(suite, *more):
    return tuple('deb %s %s main' % (DEBIAN, s) for s in (suite, *more))


def ubuntu(suite):
    return tuple('deb %s %s%s main universe' % (UBUNTU, suite, pocket) for pocket in ('', '-updates'))


IMAGES = {
    'bookworm': Image('bookworm', debian('bookworm')),
    'bookworm-5.10': Image('bookworm', debian('bookworm', 'bullseye'), kernel='linux-image-amd64=5.10*'),
    'trixie': Image('trixie', debian('trixie')),
    'sid': Image('sid', debian('sid')),
    'jammy': Image('jammy', ubuntu('jammy'), kernel='linux-image-generic', keyring='ubuntu-archive-keyring.gpg', without=('libwslay1',)),
    'noble': Image('noble', ubuntu('noble'), kernel='linux-image-generic', keyring='ubuntu-archive-keyring.gpg'),
}

# A stand-in for Ubuntu's kernel.apparmor_restrict_unprivileged_userns, which Debian's kernels lack: people's shells, and all that has no profile of
# its own below them, may not make user namespaces. The files of cay's own profile are left as cay installs them.
DENY_USERNS = r'''
cp /bin/bash /usr/local/bin/people-sh
cat >/etc/apparmor.d/people-sh <<'PROFILE'
abi <abi/4.0>,
profile people-sh /usr/local/bin/people-sh flags=(attach_disconnected) {
  capability, network, mount, remount, umount, pivot_root, signal, ptrace, unix, dbus, mqueue, io_uring, change_profile,
  /{,**} rwlkm,
  /** pix,
}
PROFILE
apparmor_parser -r /etc/apparmor.d/people-sh
for u in session plain cron; do usermod -s /usr/local/bin/people-sh $u; done
'''

SYSTEMS = {
    'bookworm': System('bookworm', 'Debian 12'),
    'bookworm-5.10': System('bookworm-5.10', "Debian 12 with Debian 11's kernel"),
    'trixie': System('trixie', 'Debian 13'),
    'trixie-apparmor': System('trixie', 'Debian 13, AppArmor denies user namespaces', setup=DENY_USERNS),
    'trixie-noclone': System('trixie', 'Debian 13, kernel.unprivileged_userns_clone=0', append='sysctl.kernel.unprivileged_userns_clone=0'),
    'trixie-nouserns': System('trixie', 'Debian 13, user.max_user_namespaces=0', append='sysctl.user.max_user_namespaces=0'),
    'bookworm-v1': System('bookworm', 'Debian 12, control groups of version 1',
                        append='systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1'),
    'sid': System('sid', 'Debian unstable'),
    'jammy': System('jammy', 'Ubuntu 22.04', optional=True),
    'noble': System('noble', 'Ubuntu 24.04', optional=True),
}
