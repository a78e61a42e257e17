#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_unpack.py PROGRAM [CASE…]: what cay-unpack accepts and what it refuses, archive by archive (S-56 to S-61)."""
import base64, gzip, io, json, os, random, struct, subprocess, sys, tarfile, tempfile, zipfile
import cases

prog = os.path.abspath(sys.argv[1])
HEAD = struct.Struct("<IBBHHHIIIIIqQ")
watched = "watched" in prog  # a sanitizer's shadow is no memory of the archive's


class Refused(Exception):
    pass


def items(raw):
    """The stream of proto/item.h: [(type, path, target, mode, uid, flags, data)], or Refused."""
    at, out = 0, []
    while True:
        if at + HEAD.size > len(raw):
            raise Refused("cut", "", "")
        magic, kind, flags, npath, ntarget, _, nextra, mode, uid, gid, nsec, mtime, size = HEAD.unpack_from(raw, at)
        at += HEAD.size
        assert magic == 0x31796163
        path, at = raw[at:at + npath].decode("utf-8", "surrogateescape"), at + npath
        target, at = raw[at:at + ntarget].decode("utf-8", "surrogateescape"), at + ntarget
        extra, at = raw[at:at + nextra], at + nextra
        kind, data = chr(kind), b""
        if kind == "!":
            raise Refused(target, path, extra.decode(errors="replace"))
        if kind == "e":
            assert size == sum(len(i[6]) for i in out if i[0] == "f") and mode == sum(i[0] != "n" for i in out)
            return out
        while kind == "f":
            (n,) = struct.unpack_from("<I", raw, at)
            data, at = data + raw[at + 4:at + 4 + n] if n < 1 << 20 else data, at + 4 + n
            if not n or n == 0xffffffff:  # all of it, or no more of it because FAIL follows
                at -= n and n
                break
        out.append((kind, path, target, mode, uid, flags, extra if kind == "n" else data))


def unpack(data, profile="tree", form="auto", *opts):
    p = subprocess.run([prog, *opts, profile, form], input=data, stdout=subprocess.PIPE, timeout=60)
    assert p.returncode in (0, 1), "died: %d" % p.returncode
    got = items(p.stdout)
    assert p.returncode == 0
    return got


def refused(data, word, profile="tree", form="auto", *opts, names=None):
    try:
        got = unpack(data, profile, form, *opts)
    except Refused as e:
        assert e.args[0] == word, e.args
        assert names is None or names in e.args[1] + e.args[2], e.args
        return
    raise AssertionError("accepted: %r" % [i[:3] for i in got][:5])


def tar(*members, fmt=tarfile.PAX_FORMAT, mode="w"):
    """Members: (name, bytes), or a TarInfo, or (TarInfo, bytes)."""
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode=mode, format=fmt) as t:
        for m in members:
            if isinstance(m, tarfile.TarInfo):
                t.addfile(m)
                continue
            info, data = m
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
                info.mode = 0o644
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return f.getvalue()


def info(name, kind=tarfile.REGTYPE, target="", mode=0o755, **more):
    i = tarfile.TarInfo(name)
    i.type, i.linkname, i.mode = kind, target, mode
    for k, v in more.items():
        setattr(i, k, v)
    return i


def raw_header(name=b"f", size=b"00000000000\0", kind=b"0", body=b"", fix=True, magic=b"ustar\00000"):
    h = bytearray(512)
    h[0:len(name)] = name
    h[100:108], h[108:116], h[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    h[124:136], h[136:148], h[156:157], h[257:265] = size, b"00000000000\0", kind, magic
    h[148:156] = b" " * 8
    if fix:
        h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h) + body + b"\0" * (-len(body) % 512)


END = b"\0" * 1024
PROFILES = "tree", "hydrate", "extract"


def pax(*records, kind=b"x"):
    body = b""
    for k, v in records:
        n = len(k) + len(v) + 3
        while len(str(n)) + len(k) + len(v) + 3 != n:
            n = len(str(n)) + len(k) + len(v) + 3
        body += b"%d %s=%s\n" % (n, k, v)
    return raw_header(b"pax", b"%011o\0" % len(body), kind, body)


def paths(got):
    return {i[1]: i for i in got}


# ---------------------------------------------------------------- what is kept

def plain_trees_come_out_as_they_went_in():
    for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        got = paths(unpack(tar(info("./", tarfile.DIRTYPE), info("./d", tarfile.DIRTYPE), ("./d/f", b"hello"), ("x" * 90 + "/" + "y" * 90, b"long"), fmt=fmt)))
        assert got["d/f"][6] == b"hello" and got["d/f"][3] == 0o644 and got["x" * 90 + "/" + "y" * 90][6] == b"long"
        assert got["x" * 90][5] == 2  # told although no member was


def every_compression_is_seen_by_itself():
    for mode in ("w:gz", "w:bz2", "w:xz"):
        assert paths(unpack(tar(("a", b"b" * 5000), mode=mode)))["a"][6] == b"b" * 5000
    z = subprocess.run(["zstd", "-qc"], input=tar(("a", b"c")), stdout=subprocess.PIPE).stdout
    assert paths(unpack(z))["a"][6] == b"c"


def names_that_are_not_ascii_are_kept():
    for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        assert "d\u00e4/\u6f22" in paths(unpack(tar(("d\u00e4/\u6f22", b""), fmt=fmt)))
    latin = unpack(raw_header(b"caf\xe9") + END)
    assert latin[0][1].encode("utf-8", "surrogateescape") == b"caf\xe9"


def a_virtualenv_link_is_kept():
    got = paths(unpack(tar(info("v/lib", tarfile.DIRTYPE), info("v/lib64", tarfile.SYMTYPE, "lib"), info("v/bin/p", tarfile.SYMTYPE, "../lib/p")), "hydrate"))
    assert got["v/lib64"][2] == "lib" and got["v/bin/p"][2] == "../lib/p"


def modes_are_restored_as_the_sdk_does():
    got = paths(unpack(tar((info("a", mode=0o755), b""), (info("b", mode=0o644), b""), (info("c", mode=0o400), b""), (info("d", mode=0o6777), b""),
                           (info("e", mode=0o611), b"")), "hydrate"))
    assert [oct(got[k][3]) for k in "abcde"] == ["0o755", "0o644", "0o600", "0o755", "0o600"]
    got = paths(unpack(tar((info("d", mode=0o6755), b"")), "tree"))
    assert got["d"][3] == 0o755


def ours_has_notes_removals_and_owners():
    def ours(*m):
        return tar(("cay.json", b'{"version":1}'), info("root", tarfile.DIRTYPE), *m, ("cay.sha256", b"00"))
    gone = info("root/x", pax_headers={"SCHILY.xattr.cay.whiteout": "1"})
    hidden = info("root/d", tarfile.DIRTYPE, pax_headers={"SCHILY.xattr.cay.opaque": "1"}, mode=0o1777)
    f = info("root/f", uid=7)
    got = unpack(ours(gone, hidden, (f, b"1"), info("root/h", tarfile.LNKTYPE, "root/f"), info("root/l", tarfile.SYMTYPE, "/usr/bin/x")), "auto")
    by = paths(got)
    assert by["x"][0] == "w" and by["d"][5] == 1 and by["d"][3] == 0o1777 and by["f"][4] == 7 and by["h"][0] == "h" and by["h"][2] == "f"
    assert by["l"][2] == "/usr/bin/x" and by["cay.json"][0] == "n" and by["cay.sha256"][6] == b"00"
    refused(ours(("elsewhere", b"")), "archive_path", "auto")
    refused(ours((info("root/y", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc"}), b"")), "archive_special", "auto")
    refused(ours((info("root/y", pax_headers={"SCHILY.xattr.user.overlay.opaque": "y"}), b"")), "archive_special", "auto")
    refused(ours((info("root/y", uid=70000), b"")), "archive_special", "auto")


def workspace_json_is_read():
    def js(**kw):
        return json.dumps({"version": 1, "directories": ["d", "e/f"], "files": [{"path": "d/x\u00e4\"", "data": base64.b64encode(b"abcd").decode()},
                                                                                {"path": "big", "data": base64.b64encode(bytes(range(256)) * 999).decode()},
                                                                                {"path": "none", "data": ""}], **kw}).encode()
    got = paths(unpack(js(), "auto"))
    assert got["d/x\u00e4\""][6] == b"abcd" and got["big"][6] == bytes(range(256)) * 999 and got["none"][6] == b"" and got["e/f"][0] == "d"
    refused(js(version=2), "archive_format", "auto")
    refused(js(files=[{"path": "../x", "data": ""}]), "archive_path", "auto")
    refused(js(files=[{"path": "a", "data": "!!!!"}]), "archive_corrupt", "auto")
    refused(js(files=[{"path": "a", "data": "QQ=Q"}]), "archive_corrupt", "auto")
    refused(js(files=[{"path": "a", "data": ""}, {"path": "a", "data": ""}]), "archive_duplicate", "auto")
    refused(js(files=[{"path": "d", "data": ""}, {"path": "d/x", "data": ""}]), "archive_duplicate", "auto")
    refused(js(more=1), "archive_corrupt", "auto")
    refused(js() + b"x", "archive_corrupt", "auto")
    refused(js()[:-30], "archive_corrupt", "auto")
    refused(b'{"version":1,"directories":["\\ud800"],"files":[]}', "archive_corrupt", "auto")


def zips_are_read():
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("d/", "")
        z.writestr("d/a", "x" * 3000)
        z.writestr("b", "")
    got = paths(unpack(f.getvalue()))
    assert got["d/a"][6] == b"x" * 3000 and got["d"][0] == "d" and got["b"][6] == b""


# ---------------------------------------------------------------- S-56 to S-59

def s56_names_never_lead_out():
    for name in ("../x", "/etc/passwd", "a/../../b", "..", "a/..", "C:\\x", "c:/x", "a\\b", "\\\\host\\x"):
        for fmt in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            for profile in PROFILES:
                refused(tar(("ok", b"1"), (name, b"2"), fmt=fmt), "archive_path", profile, names=name)
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w") as z:
            z.writestr("ok", "1")
            zi = zipfile.ZipInfo("q")
            zi.filename = name
            z.writestr(zi, "2")
        if name != "a\\b":  # libarchive reads it as a/b, which is what then counts
            refused(f.getvalue(), "archive_path", names=name.replace("\\", "/")[-3:])
    refused(tar(("a/" * 2100 + "x", b"")), "archive_path")
    refused(tar(("y" * 256, b"")), "archive_path")


def s57_nothing_is_below_a_link():
    for profile in ("tree", "hydrate"):
        refused(tar(info("l", tarfile.SYMTYPE, "d"), ("l/x", b"1")), "archive_link", profile, names="l/x")
        refused(tar(info("a/l", tarfile.SYMTYPE, "."), info("a/l/b", tarfile.DIRTYPE)), "archive_link", profile)
        refused(tar(("l/x", b"1"), info("l", tarfile.SYMTYPE, "d")), "archive_duplicate", profile)
        refused(tar(("f", b"1"), ("f/x", b"2")), "archive_link", profile)
        for to in ("/etc", "../x", "a/../../x", "d/..", "", "..", "C:\\x", "./../x"):
            refused(tar(info("l", tarfile.SYMTYPE, to)) if to else raw_header(b"l", kind=b"2") + END, "archive_link", profile, names="l")
        refused(tar(info("a/b/l", tarfile.SYMTYPE, "../../../x")), "archive_link", profile)
    refused(tar(info("l", tarfile.SYMTYPE, "x")), "archive_link", "extract")
    # two members of one name, of which the first is a link
    refused(tar(info("l", tarfile.SYMTYPE, "x"), ("l", b"1")), "archive_duplicate", "tree")


def s58_hard_links_name_an_earlier_file():
    assert paths(unpack(tar(("f", b"1"), info("h", tarfile.LNKTYPE, "f"))))["h"][0] == "h"
    for profile in ("hydrate", "extract"):
        refused(tar(("f", b"1"), info("h", tarfile.LNKTYPE, "f")), "archive_link", profile, names="h")
    for to in ("later", "nowhere", "l", "d"):
        refused(tar(info("l", tarfile.SYMTYPE, "f"), info("d", tarfile.DIRTYPE), info("h", tarfile.LNKTYPE, to), ("later", b"1")), "archive_link", names="h")
    for to in ("/etc/passwd", "../x"):
        refused(tar(info("h", tarfile.LNKTYPE, to)), "archive_path")


def s59_special_members():
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
        for profile in PROFILES:
            refused(tar(("ok", b"1"), info("dev", kind, devmajor=1, devminor=3)), "archive_special", profile, names="dev")
    for kind in (b"A", b"V", b"M", b"D", b"N", b"Z", b"8", b"\xff"):
        refused(raw_header(kind=kind) + END, "archive_special")
    assert unpack(raw_header(kind=b"7") + END)[0][0] == "f"
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/s", "wb") as f:
            f.seek(3 << 20)
            f.write(b"end")
        for fmt in ("gnu", "pax"):
            t = subprocess.run(["tar", "-C", d, "-cS", "--format=" + fmt, "-f", "-", "s"], stdout=subprocess.PIPE).stdout
            got = paths(unpack(t))["s"][6]
            assert len(got) == (3 << 20) + 3 and got.endswith(b"\0end") and len(t) < 1 << 16
            refused(t, "archive_limit", "tree", "auto", "--max-output", "1000000")


# ---------------------------------------------------------------- S-60, S-61

def peak(data, *args):
    """Most memory that the program was seen to have, in MiB, and the last of what it said."""
    with tempfile.TemporaryFile() as f:
        f.write(data)
        f.seek(0)
        p = subprocess.Popen([prog, *args], stdin=f, stdout=subprocess.PIPE, bufsize=0)
        most, out = 0, b""
        while True:
            n = p.stdout.read(1 << 16)
            if not n:
                break
            out = (out + n)[-4096:]
            with open("/proc/%d/status" % p.pid) as st:
                most = max([most] + [int(l.split()[1]) for l in st if l.startswith("VmHWM")])
        p.wait()
        return most / 1024, out


def s60_bombs():
    big = raw_header(size=b"%011o\0" % (64 << 20))
    bomb = subprocess.run("{ cat; head -c 67108864 /dev/zero; head -c 1024 /dev/zero; } | zstd -qc", shell=True, input=big, stdout=subprocess.PIPE).stdout
    assert len(bomb) < 100000
    for data in (bomb, gzip.compress(big + b"\0" * (16 << 20))):
        used, out = peak(data, "tree", "auto")
        assert b"archive_limit" in out and (watched or used < 100), used
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("z", b"\0" * (32 << 20))
    refused(f.getvalue(), "archive_limit")
    inner = f.getvalue()
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("nested.zip", inner)
    assert paths(unpack(f.getvalue()))["nested.zip"][6] == inner  # a file like any other; nobody opens it
    refused(raw_header(size=b"\x80" + b"\0" * 3 + struct.pack(">Q", 1 << 60)) + END, "archive_limit")
    refused(pax((b"size", b"1152921504606846976")) + raw_header() + END, "archive_limit")
    refused(tar(("a", b"x" * 5000)), "archive_limit", "tree", "auto", "--max-output", "4999")
    refused(tar(*[("f%d" % i, b"") for i in range(11)]), "archive_limit", "tree", "auto", "--max-members", "10")
    unpack(tar(*[("f%d" % i, b"") for i in range(10)]), "tree", "auto", "--max-members", "10")
    assert len(unpack(tar(*[("f%d" % i, b"") for i in range(11)]))) == 11  # nobody said ten
    refused(tar(("a", os.urandom(50000))), "archive_limit", "tree", "auto", "--max-input", "20000")
    window = subprocess.run("head -c 4000000 /dev/zero | zstd -qc --ultra --long=31", shell=True, stdout=subprocess.PIPE).stdout
    if not watched:
        window = bytearray(window)
        window[4] &= ~0x20 & 0xff  # not a single segment: the window is what the descriptor says
        window[5] = (31 - 10) << 3
        refused(bytes(window), "archive_corrupt", "tree", "tar")


def s60_many_members_need_little_memory():
    one = [raw_header(b"%07d" % i) for i in range(60000)]
    used, out = peak(b"".join(one) + END, "tree", "auto")
    assert b"archive" not in out and (watched or used < 64), used
    used, out = peak(b"".join(one) + END, "--max-members", "50000", "tree", "auto")
    assert b"archive_limit" in out


def s61_headers_that_lie():
    refused(pax((b"path", b"../up")) + raw_header(b"harmless") + END, "archive_path", names="../up")
    refused(pax((b"path", b"a"), (b"path", b"b")) + raw_header() + END, "archive_corrupt")
    refused(pax((b"mtime", b"1"), (b"mtime", b"2")) + raw_header() + END, "archive_corrupt")
    refused(pax((b"path", b"a\0b")) + raw_header() + END, "archive_path")
    refused(pax((b"path", b"a")) + pax((b"path", b"b")) + raw_header() + END, "archive_corrupt")
    refused(pax((b"size", b"-5")) + raw_header() + END, "archive_corrupt")
    refused(pax((b"size", b"600")) + raw_header(size=b"%011o\0" % 5, body=b"12345") + END, "archive_corrupt")
    refused(pax((b"path", b"x"), kind=b"g") + raw_header() + END, "archive_corrupt")
    refused(raw_header(b"L", b"%011o\0" % 4, b"L", b"a\0b\0") + raw_header() + END, "archive_path")
    refused(raw_header(b"L", b"%011o\0" % 2, b"L", b"a\0") + pax((b"path", b"b")) + raw_header() + END, "archive_corrupt")
    refused(raw_header(size=b"\xff" * 12) + END, "archive_corrupt")
    refused(raw_header(size=b"-0000000005\0") + END, "archive_corrupt")
    refused(raw_header(size=b"00000zz0000\0") + END, "archive_corrupt")
    refused(raw_header(size=b"%011o\0" % 5, kind=b"2") + b"12345" + END, "archive_corrupt")
    refused(raw_header(fix=False) + END, "archive_corrupt")
    refused(raw_header(size=b"%011o\0" % (2 << 20), kind=b"x") + END, "archive_limit")
    for junk in (b"5 a=b\n", b"99 a=b\n", b"6 a=b", b"x", b"7 =abc\n", b"0 a=b\n", b"\0" * 9):
        refused(raw_header(size=b"%011o\0" % len(junk), kind=b"x", body=junk) + raw_header() + END, "archive_corrupt")
    for profile in PROFILES:
        refused(tar(("a", b"1"), ("a", b"2")), "archive_duplicate", profile, names="a")
        refused(tar(("a", b"1"), ("./a", b"2")), "archive_duplicate", profile, names="a")
    refused(tar(("a", b"1" * 4000))[:1024], "archive_corrupt")
    refused(tar(("a", b"1"))[:1024], "archive_corrupt")
    refused(b"", "archive_corrupt")
    refused(b"no archive at all" * 100, "archive_format")
    bad = bytearray(tar(("a", random.Random(1).randbytes(9000)), mode="w:bz2"))
    bad[len(bad) // 2] ^= 255
    refused(bytes(bad), "archive_corrupt", "tree", "tar")


def zips_that_lie():
    def made(**kw):
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w", kw.get("how", zipfile.ZIP_STORED)) as z:
            z.writestr("a", b"hello world" * 100)
        return bytearray(f.getvalue())
    z = made()
    z[45] ^= 1  # a byte of the content: its checksum is another
    refused(bytes(z), "archive_corrupt")
    z = made(how=zipfile.ZIP_DEFLATED)
    at = z.rfind(b"PK\1\2")
    z[at + 24:at + 28] = struct.pack("<I", 50)  # declares less than there is
    refused(bytes(z), "archive_corrupt")
    z = made()
    refused(bytes(z[:len(z) // 2]), "archive_corrupt")
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as q:
        zi = zipfile.ZipInfo("l")
        zi.create_system, zi.external_attr = 3, 0o120777 << 16
        q.writestr(zi, "/etc/passwd")
    refused(f.getvalue(), "archive_link", names="l")
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as q:
        q.writestr("a", "1")
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q.writestr("a", "2")
    refused(f.getvalue(), "archive_duplicate")


def a_directory_is_told():
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(d + "/t/.git/objects")
        open(d + "/t/run", "w").write("x")
        os.chmod(d + "/t/run", 0o755)
        os.symlink("/etc", d + "/t/out")
        os.mkfifo(d + "/t/fifo")
        p = subprocess.run([prog, "clone", "walk", "t"], cwd=d, stdout=subprocess.PIPE)
        got = paths(items(p.stdout))
        assert set(got) == {".git", ".git/objects", "run", "out"} and got["run"][3] == 0o755 and got["out"][2] == "/etc"
        os.symlink(d + "/t", d + "/l")
        for out in ("l", "t/out", "../x", d + "/t", "nowhere"):
            assert subprocess.run([prog, "clone", "walk", out], cwd=d, stdout=subprocess.PIPE).returncode == 1


helpers = {items, unpack, refused, tar, info, raw_header, pax, paths, peak}
sys.exit(not cases.run(cases.of(globals(), helpers), sys.argv[2:]))
