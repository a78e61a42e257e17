# SPDX-License-Identifier: Apache-2.0
"""Guests under QEMU's software emulation: disks made of packages, a second disk with cay and what runs, and the machine itself.

A disk is made once and kept in ${CAY_VM_CACHE:-${XDG_CACHE_HOME:-~/.cache}/cay-vm}, below a name with the digest of its recipe. Guests write
into a snapshot of it that goes with them, so that several may run from one disk. cay, the cases and the script come on a second disk, so that
a new build needs no new image. The guest's report comes through a virtio port; its console goes to a file.
"""
import contextlib
import fcntl
import glob
import hashlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from systems import IMAGES, SYSTEMS

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
QEMU = {'amd64': 'qemu-system-x86_64'}
END_OF_GUEST = '\x1eexit '  # what guest/start prints at the end


signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))  # so that what ends a run ends its guest, too


class Cannot(Exception):
    """This machine has not what a guest needs: no verdict on cay."""


def cache_dir():
    path = os.environ.get('CAY_VM_CACHE') or os.path.join(os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache'), 'cay-vm')
    os.makedirs(path, exist_ok=True)
    return path


def need_programs(*names):
    missing = [n for n in names if not shutil.which(n, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')]
    if missing:
        raise Cannot('not installed: %s (packages qemu-system-x86, mmdebstrap, e2fsprogs)' % ', '.join(missing))


# ---- disks

# Runs in the new root, as mmdebstrap's last step: the unit that runs the second disk's program at each boot, and quiet timers.
CUSTOMIZE = r'''#!/bin/sh
set -e
cd "$1"
cat >etc/systemd/system/cay-vm.service <<'UNIT'
[Unit]
Description=what the second disk brings
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'mkdir -p /payload && mount -o ro /dev/vdb /payload && exec /payload/start'
TimeoutStartSec=infinity
UNIT
mkdir -p etc/systemd/system/graphical.target.wants
ln -s ../cay-vm.service etc/systemd/system/graphical.target.wants/
for u in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer; do
    ln -sf /dev/null "etc/systemd/system/$u"
done
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
echo vm >etc/hostname
printf '127.0.0.1 localhost vm\n::1 localhost\n' >etc/hosts
echo '/dev/vda / ext4 defaults 0 0' >etc/fstab
rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/*
'''

# A small initrd is made and unpacked sooner: software emulation is slow.
SETUP = r'''#!/bin/sh
set -e
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"
echo MODULES=list >"$1/etc/initramfs-tools/conf.d/vm"
printf 'virtio_pci\nvirtio_blk\next4\n' >"$1/usr/share/initramfs-tools/modules.d/vm"
'''

# mkfs.ext4 -d needs no mount, and no root that unshare(1) does not give.
MAKE_DISK = r'''
set -e
mkdir root
tar -xf root.tar -C root --numeric-owner --xattrs --xattrs-include='*' --exclude='./dev/*'
cp root/boot/vmlinuz-* vmlinuz
cp root/boot/initrd.img-* initrd
truncate -s 8G disk.img
PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F -L root -E lazy_itable_init=1,lazy_journal_init=1 -d root disk.img
rm -rf root root.tar setup customize
'''


def recipe(image):
    return repr((image, image.packages(), SETUP, CUSTOMIZE, MAKE_DISK))


def make_disk(image, dir):
    for name, text in (('setup', SETUP), ('customize', CUSTOMIZE)):
        with open(os.path.join(dir, name), 'w') as f:
            f.write(text)
        os.chmod(os.path.join(dir, name), 0o755)
    command = ['mmdebstrap', '--quiet', '--variant=minbase', '--format=tar', '--architectures=' + image.arch, '--include=' + ','.join(image.packages()),
               '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Languages "none"', '--dpkgopt=path-exclude=/usr/share/man/*',
               '--dpkgopt=path-exclude=/usr/share/doc/*', '--dpkgopt=path-exclude=/usr/share/locale/*',
               '--setup-hook=' + os.path.join(dir, 'setup'), '--customize-hook=' + os.path.join(dir, 'customize')]
    if image.keyring:
        command.append('--keyring=/usr/share/keyrings/' + image.keyring)
    as_root = [] if os.getuid() == 0 else ['unshare', '--map-root-user', '--map-auto']
    with open(os.path.join(dir, 'log'), 'w+') as log:
        for step in (command + [image.suite, os.path.join(dir, 'root.tar'), *image.sources], as_root + ['sh', '-c', MAKE_DISK]):
            if subprocess.run(step, cwd=dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode:
                log.seek(0)
                raise Cannot('%s: %s' % (step[0], ' | '.join(log.read().splitlines()[-4:])))


def disk_of(image_name, say=lambda text: None):
    """The directory with disk.img, vmlinuz and initrd of an image; made when it is not there."""
    image = IMAGES[image_name]
    key = hashlib.sha256(recipe(image).encode()).hexdigest()[:12]
    dir = os.path.join(cache_dir(), '%s-%s' % (image_name, key))
    with open(dir + '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(dir):
            need_programs('mmdebstrap', 'mkfs.ext4')
            say('making the image %s: some minutes' % image_name)
            fresh = tempfile.mkdtemp(prefix='.new-', dir=cache_dir())
            try:
                os.chmod(fresh, 0o755)
                make_disk(image, fresh)
                os.rename(fresh, dir)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return dir


# ---- the second disk

def install_tree(build, dir):
    """The build as `make install` leaves it, as a tar."""
    dest = os.path.join(dir, 'dest')
    subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', dest], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['tar', '-cf', os.path.join(dir, 'tree.tar'), '--owner=0', '--group=0', '-C', dest, '.'], check=True)
    shutil.rmtree(dest)


def packages_in(dir):
    """The packages of cay that a system needs, of a directory that `make deb` filled."""
    found = sorted(f for name in ('cay', 'libcay0') for f in glob.glob('%s/%s_*.deb' % (dir, name))) if dir else []
    if dir and len(found) != 2:
        raise Cannot('%s has not one package each of cay and libcay0: make deb' % dir)
    return found


def newer(debs, into, work):
    """The same packages under a version that is newer, for an upgrade."""
    for n, deb in enumerate(debs):
        tree = os.path.join(work, 'deb%d' % n)
        subprocess.run(['dpkg-deb', '-R', deb, tree], check=True)
        control = os.path.join(tree, 'DEBIAN/control')
        with open(control) as f:
            text = f.read()
        version = re.search(r'(?m)^Version: (.*)$', text).group(1)
        with open(control, 'w') as f:
            f.write(text.replace(version, version + '+again'))
        subprocess.run(['dpkg-deb', '--root-owner-group', '-Zgzip', '-b', tree, into], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)


def payload(into, system_name, build, debs=(), script=None, args=()):
    """A disk with cay, the cases and what is to be run: guest/start says how it is used."""
    dir = os.path.join(into, 'payload')
    shutil.copytree(os.path.join(HERE, 'guest'), dir)
    system = SYSTEMS[system_name]
    with open(os.path.join(dir, 'setup'), 'w') as f:
        f.write(system.setup)
    with open(os.path.join(dir, 'system'), 'w') as f:
        f.write(system_name + '\n')
    with open(os.path.join(dir, 'args'), 'w') as f:
        f.write(''.join(a + '\n' for a in args))
    if script:
        shutil.copy(script, os.path.join(dir, 'script'))
        os.chmod(os.path.join(dir, 'script'), 0o755)
    if debs:
        os.mkdir(os.path.join(dir, 'debs'))
        for deb in debs:
            shutil.copy(deb, os.path.join(dir, 'debs'))
        os.mkdir(os.path.join(dir, 'newer'))
        newer(debs, os.path.join(dir, 'newer'), into)
    else:
        install_tree(build, dir)
    for extra in ('tests/support/leftovers',):
        shutil.copy(os.path.join(build, extra), dir)
    disk = os.path.join(into, 'payload.img')
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(dir) for f in files)
    with open(disk, 'wb') as f:
        f.truncate(size * 5 // 4 + (16 << 20))
    subprocess.run(['mkfs.ext4', '-q', '-F', '-O', '^has_journal', '-E', 'root_owner=0:0', '-d', dir, disk], check=True,
                   env=dict(os.environ, PATH=os.environ['PATH'] + ':/usr/sbin:/sbin'))
    shutil.rmtree(dir)
    return disk


# ---- the machine

class Guest:
    """One boot of a system. lines() gives what it reports; status is what its script ended with, or None when the machine died."""

    def __init__(self, system_name, second_disk, dir, append='', memory=2048, interactive=False, patience=1200):
        system = SYSTEMS[system_name]
        image = IMAGES[system.image]
        need_programs(QEMU[image.arch])
        base = disk_of(system.image)
        self.console = os.path.join(dir, 'console')
        self.patience = patience
        self.status = None
        kernel_line = 'root=/dev/vda rw console=ttyS0 systemd.show_status=0 quiet fsck.mode=skip no_timer_check %s %s' % (system.append, append)
        self.command = [
            QEMU[image.arch], '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2', '-m', str(memory), '-display', 'none', '-nic', 'none', '-no-user-config',
            '-kernel', base + '/vmlinuz', '-initrd', base + '/initrd', '-append', kernel_line,
            '-drive', 'file=%s/disk.img,format=raw,if=virtio,snapshot=on,cache=unsafe' % base,
            '-drive', 'file=%s,format=raw,if=virtio,readonly=on' % second_disk,
            '-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci', '-device', 'virtserialport,chardev=report,name=cay']
        if interactive:
            self.command += ['-chardev', 'null,id=report', '-serial', 'mon:stdio']
        else:
            self.command += ['-chardev', 'stdio,id=report,signal=off', '-serial', 'file:' + self.console, '-monitor', 'none']
        self.env = dict(os.environ, TMPDIR=dir)  # where the snapshot grows

    def attach(self):
        """For a person at a terminal."""
        return subprocess.run(self.command, env=self.env).returncode

    def lines(self):
        """The guest's report, line by line, until it is gone. A guest that is silent for `patience` seconds is ended."""
        proc = subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
        rest, silent_since = b'', time.monotonic()
        try:
            while True:
                ready = select.select([proc.stdout], [], [], 5)[0]
                if not ready:
                    if time.monotonic() - silent_since > self.patience or self.panicked():
                        return
                    continue
                silent_since = time.monotonic()
                data = os.read(proc.stdout.fileno(), 65536)
                if not data:
                    return
                *whole, rest = (rest + data).split(b'\n')
                for line in whole:
                    text = line.decode('utf-8', 'replace').rstrip('\r')
                    if text.startswith(END_OF_GUEST):
                        self.status = int(text[len(END_OF_GUEST):])
                    else:
                        yield text
        finally:
            if rest:
                print(rest.decode('utf-8', 'replace'))
            with contextlib.suppress(subprocess.TimeoutExpired):
                proc.wait(60 if self.status is not None else 1)
            proc.kill()
            proc.wait()

    def console_text(self):
        try:
            with open(self.console, errors='replace') as f:
                return f.read()
        except OSError:
            return ''

    def panicked(self):
        return 'Kernel panic' in self.console_text()


@contextlib.contextmanager
def workdir():
    """For what goes with a guest: in the cache, because a snapshot may grow beyond what /tmp holds."""
    dir = tempfile.mkdtemp(prefix='.run-', dir=cache_dir())
    try:
        yield dir
    finally:
        shutil.rmtree(dir, ignore_errors=True)
