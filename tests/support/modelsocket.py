# SPDX-License-Identifier: Apache-2.0
"""The server's side of a WebSocket (RFC 6455), and what a bad server makes of it."""
import base64, hashlib, struct

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(op, data, fin=True, mask=False):
    n = len(data)
    head = bytes([op | (0x80 if fin else 0)])
    bit = 0x80 if mask else 0
    head += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else bytes([bit | 127]) + struct.pack(">Q", n)
    return head + (b"\0\0\0\0" if mask else b"") + data


class Socket:
    def __init__(self, handler, scene):
        self.h, self.scene, self.open, self.pong = handler, scene, True, None

    def shake(self):
        key = self.h.headers["Sec-WebSocket-Key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode() if self.scene != "ws-stranger" else "x"
        self.h.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % accept).encode())
        self.h.wfile.flush()
        self.h.close_connection = True

    def put(self, data):
        self.h.wfile.write(data)
        self.h.wfile.flush()

    def send(self, text):
        data = text.encode()
        if self.scene == "ws-pieces" and len(data) > 3: # in three frames, with a ping and an empty one between them
            self.put(frame(1, data[:2], False) + frame(9, b"there?") + frame(0, data[2:3], False) + frame(0, b"", False) + frame(10, b"") + frame(0, data[3:]))
        elif self.scene == "ws-pings": # as long as they may be, more than anybody wants to keep answers for
            self.pong = b""
            self.put(b"".join(frame(9, b"%03d" % i + b"p" * 122) for i in range(60)) + frame(1, data))
        elif self.scene == "ws-bytewise":
            for i in range(len(f := frame(1, data))):
                self.put(f[i:i + 1])
        else:
            self.put({"ws-masked": frame(1, data, mask=True), "ws-huge": b"\x81\x7f" + struct.pack(">Q", 1 << 62), "ws-binary": frame(2, data), "ws-bits": frame(0x41, data),
                      "ws-rest": frame(0, data), "ws-control": frame(9, b"x" * 126)}.get(self.scene, frame(1, data)))

    def exactly(self, n):
        data = self.h.rfile.read(n)
        if len(data) < n:
            raise EOFError
        return data

    def message(self):
        """The next text of the client, or None when it has gone."""
        text = b""
        try:
            while True:
                a, b = self.exactly(2)
                n = b & 127
                n = struct.unpack(">H", self.exactly(2))[0] if n == 126 else struct.unpack(">Q", self.exactly(8))[0] if n == 127 else n
                assert b & 0x80 and not a & 0x70 # a client masks what it sends
                mask = self.exactly(4)
                data = self.exactly(n)
                data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")).to_bytes(n, "big") if n else b""
                op = a & 15
                if op == 8:
                    return None
                if op == 10:
                    assert data == b"there?" or self.scene == "ws-pings" and len(data) == 125 # the answer to our ping
                    self.pong = data
                if op < 8:
                    assert self.scene != "ws-pings" or self.pong is None or self.pong[:3] == b"059" # the last one is always answered
                    text += data
                    if a & 0x80:
                        return text.decode()
        except (EOFError, ConnectionError):
            return None
