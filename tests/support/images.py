# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, as OCI layouts, and what is in them: an unpacking of their layers that shares no code with cay."""
import glob, gzip, hashlib, io, json, os, random, tarfile

KINDS = {"f": tarfile.REGTYPE, "d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "c": tarfile.CHRTYPE, "b": tarfile.BLKTYPE, "p": tarfile.FIFOTYPE}
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"


def busybox():
    for p in ("/bin/busybox", os.environ.get("BORROWED", "") + "/bin/busybox"):
        if os.path.exists(p):
            with open(p, "rb") as f:
                return f.read()
    return None


def borrowed_env():
    """The environment of a program that tools/borrow brought: its libraries are beside it, and not installed."""
    libs = glob.glob(os.environ.get("BORROWED", "") + "/usr/lib/*-linux-gnu")
    return dict(os.environ, LD_LIBRARY_PATH=":".join(libs)) if os.environ.get("BORROWED") and libs else None


def fault_points(*files):
    """The fault points of files below src/lib/template: what is added there is tried without anybody thinking of it."""
    import re
    at = os.path.dirname(os.path.abspath(__file__)) + "/../../src/lib/template/"
    return [p for f in files for p in re.findall(r'CAY_FAULT\("([a-z.]+)"\)', open(at + f).read())]


def ent(name, kind="f", data=b"", mode=None, uid=0, gid=0, to="", xattr=None, mtime=1000000000):
    return dict(name=name, kind=kind, data=data, mode=mode if mode is not None else 0o755 if kind == "d" else 0o777 if kind == "l" else 0o644, uid=uid, gid=gid, to=to,
                xattr=xattr or {}, mtime=mtime)


def tar(entries, fmt=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for e in entries:
            i = tarfile.TarInfo(e["name"])
            i.type, i.mode, i.uid, i.gid, i.mtime, i.linkname = KINDS[e["kind"]], e["mode"], e["uid"], e["gid"], e["mtime"], e["to"]
            i.size = len(e["data"]) if e["kind"] == "f" else 0
            i.pax_headers = {"SCHILY.xattr." + k: v for k, v in e["xattr"].items()}
            t.addfile(i, io.BytesIO(e["data"]) if e["kind"] == "f" else None)
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """One image in a directory. layers: lists of entries, or bytes of a tar."""

    def __init__(self, path, layers, config=None, name="test:1", packs=("gzip",), platform=None):
        self.path, self.layers, self.name = path, layers, name
        os.makedirs(path + "/blobs/sha256", exist_ok=True)
        described, ids = [], []
        for n, l in enumerate(layers):
            raw = l if isinstance(l, bytes) else tar(l)
            how = packs[n % len(packs)]
            data = gzip.compress(raw, 1, mtime=0) if how == "gzip" else raw
            ids.append(digest(raw))
            described.append(dict(self.put(data), mediaType=LAYER + ("+gzip" if how == "gzip" else "")))
        self.config = dict({"architecture": "amd64", "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": ids}})
        self.manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": dict(self.put(json.dumps(self.config).encode()), mediaType=CONFIG), "layers": described}
        self.write()

    def put(self, data):
        d = digest(data)
        with open(self.path + "/blobs/sha256/" + d[7:], "wb") as f:
            f.write(data)
        return {"digest": d, "size": len(data)}

    def write(self):
        self.described = dict(self.put(json.dumps(self.manifest).encode()), mediaType=MANIFEST, annotations={"org.opencontainers.image.ref.name": self.name})
        self.index({"schemaVersion": 2, "manifests": [self.described]})
        with open(self.path + "/oci-layout", "w") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')

    def index(self, doc):
        with open(self.path + "/index.json", "w") as f:
            json.dump(doc, f)


def unpacked(layers):
    """path → what is there, after all layers: kind, mode, uid, gid, size, mtime, links, target, hash, attributes."""
    tree, inode = {}, 0

    def drop(path):
        for p in [p for p in tree if p == path or p.startswith(path + "/")]:
            del tree[p]

    for entries in layers:
        names = {}
        gone = []
        for e in entries:
            path = e["name"].strip("/").removeprefix("./")
            base = os.path.basename(path)
            if base.startswith(".wh."):
                gone.append((os.path.dirname(path), base))
            elif e["kind"] in "cbp" and path != ".":
                continue
            else:
                names[path] = e
        for where, base in gone:  # only what lower layers have
            if base == ".wh..wh..opq":
                for p in [p for p in tree if (p.startswith(where + "/") if where else True)]:
                    del tree[p]
            elif not base.startswith(".wh..wh."):
                drop((where + "/" if where else "") + base[4:])
        for path, e in names.items():
            if path in ("", "."):
                continue
            up = os.path.dirname(path)
            while up and up not in tree and up not in names:
                tree[up] = dict(ent(up, "d"), ino=None, implied=True)
                up = os.path.dirname(up)
            for p in parents(path):
                if p in tree and tree[p]["kind"] != "d":
                    drop(p)
                    tree[p] = dict(names.get(p, ent(p, "d")), ino=None)
            old = tree.get(path)
            if old and not (old["kind"] == "d" and e["kind"] == "d"):
                drop(path)
            if e["kind"] == "h":
                tree[path] = dict(names[e["to"]], ino=tree[e["to"]]["ino"])
                continue
            inode += 1
            tree[path] = dict(e, ino=inode)
    counts = {}
    for e in tree.values():
        counts[e["ino"]] = counts.get(e["ino"], 0) + 1
    return {p: row(e, counts[e["ino"]]) for p, e in tree.items()}


def parents(path):
    while "/" in path:
        path = os.path.dirname(path)
        yield path


def row(e, links):
    k = e["kind"]
    return (k, "%o" % e["mode"] if k != "l" else "", e["uid"], e["gid"], len(e["data"]) if k == "f" else 0, e["mtime"] if not e.get("implied") else 0, links if k == "f" else 0,
            e["to"] if k == "l" else "", hashlib.sha256(e["data"]).hexdigest() if k == "f" else "")


def many_layers(n=40, seed=7):
    """Layers that add, change, replace and remove files, directories and links in every way that an image can."""
    rnd = random.Random(seed)
    bb = busybox()
    first = [ent("bin", "d"), ent("bin/busybox", data=bb, mode=0o4755)] + [ent("bin/" + a, "h", to="bin/busybox") for a in ("sh", "cat")] + [
        ent("bin/" + a, "l", to="busybox") for a in ("ls", "stat", "find", "sha256sum", "readlink", "id", "sort", "sleep", "touch", "mkdir", "rm", "mv", "echo", "test", "env")]
    first += [ent("etc", "d"), ent("etc/passwd", data=b"root:x:0:0::/root:/bin/sh\nweb:x:33:33::/srv:/bin/sh\n"), ent("etc/group", data=b"root:x:0:\nweb:x:33:\n"),
              ent("usr", "d"), ent("usr/lib", "d"), ent("data", "d", mode=0o2775, uid=33, gid=33), ent("data/acl", data=b"x", xattr={"user.note": "kept", "security.selinux": "no"}),
              ent("usr/lib/unit\\x2dname", data=b"u"), ent("data/sticky", "d", mode=0o1777), ent("data/none", data=b"", mode=0), ent("data/to-nowhere", "l", to="/does/not/exist"),
              ent("data/up", "l", to="../../../../etc/passwd"), ent("replace", "d"), ent("replace/in", data=b"1"), ent("was-file", data=b"f"), ent("was-link", "l", to="data"),
              ent("hidden", "d", mode=0o711, uid=5), ent("hidden/a", data=b"a"), ent("hidden/sub", "d"), ent("hidden/sub/b", data=b"b"), ent("private", "d", mode=0o700, uid=1000, gid=1000),
              ent("private/x", data=b"x", uid=1000), ent("twice", "d", mode=0o700), ent("made-again", "d"), ent("made-again/old", data=b"o")]
    layers = [first,
              [ent("hidden/.wh..wh..opq"), ent("hidden/new", data=b"n"), ent("private/y", data=b"y")],   # directories that nobody describes
              [ent(".wh.was-file"), ent("was-file", "d"), ent("was-file/now", data=b"dir")],
              [ent("replace", "f", data=b"a file now")],
              [ent("was-link", "d"), ent("was-link/real", data=b"r")],
              [ent("made-again", "d", mode=0o750), ent("made-again/new", data=b"n"), ent(".wh.made-again")],  # the layer's own stays
              [ent("twice", "d", mode=0o755), ent("twice/f", data=b"1"), ent("twice", "d", mode=0o711)],
              [ent("data/.wh..wh.plnk"), ent("data/.wh.none"), ent("usr/.wh.nothing")]]
    live = []
    while len(layers) < n:
        k = len(layers)
        l = [ent("d%d" % (k % 5), "d", mode=0o755)]
        for i in range(rnd.randrange(1, 6)):
            name = "d%d/f%d" % (k % 5, rnd.randrange(30))
            if not any(e["name"] == name for e in l):
                l.append(ent(name, data=bytes(rnd.randrange(256) for _ in range(rnd.randrange(2000))), mode=rnd.choice((0o600, 0o644, 0o755, 0o4755, 0o2711)), uid=rnd.choice((0, 33, 1000, 65534)),
                             gid=rnd.choice((0, 33)), mtime=1000000000 + k))
                live.append(name)
        if live and k % 3 == 0:
            name = rnd.choice(live)
            d, f = name.split("/")
            if not any(e["name"] == name for e in l):
                l.append(ent(d + "/.wh." + f))
        if k % 7 == 0:
            l.insert(0, ent("d%d/.wh..wh..opq" % (k % 5)))
        layers.append(l)
    return layers
