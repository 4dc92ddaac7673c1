"""The layers of published networks, at batch size 1, as tasks: (operator, arguments) of tools/tuner/measure/operators.py.

Layers are computed from the networks' published tables: widths, repeats, strides, kernels, groups. Weights play no part.
"""


class Layers:
    """Collects the layers of one convolutional network while its tables are walked."""

    def __init__(self, size, layout="nhwc", width=3):
        self.size, self.layout, self.width, self.found = size, layout, width, []

    def add(self, operator, **arguments):
        self.found.append((operator, arguments))
        return self

    def conv(self, out, k=3, s=1, d=1, g=1, epilogue="bias+relu", keep=False):
        """`keep`: a branch, after which the network goes on with what was before."""
        self.add(
            "conv2d",
            h=self.size,
            w=self.size,
            ci=self.width,
            co=out,
            k=k,
            s=s,
            d=d,
            g=g,
            layout=self.layout,
            epilogue=epilogue,
        )
        if not keep:
            self.size, self.width = -(-self.size // s), out
        return self

    def depthwise(self, k=3, s=1, d=1, epilogue="scale_shift+relu6"):
        return self.conv(self.width, k, s, d, self.width, epilogue)

    def pool(self, k, s, kind="max"):
        self.add("pool2d", h=self.size, w=self.size, c=self.width, k=k, s=s, kind=kind, layout=self.layout)
        self.size = -(-self.size // s)
        return self

    def squeeze(self, ratio=4, gate="sigmoid", inner="relu"):
        """Squeeze and excite."""
        small = max(8, self.width // ratio)
        self.add("global_pool", h=self.size, w=self.size, c=self.width, layout=self.layout)
        self.add("dense", m=1, k=self.width, n=small, epilogue="bias+" + inner)
        self.add("dense", m=1, k=small, n=self.width, epilogue="bias+" + gate)
        if self.size > 7:
            self.add("elementwise", rows=self.size**2, columns=self.width, epilogue="gate")
        return self

    def head(self, classes=1000, hidden=()):
        self.add("global_pool", h=self.size, w=self.size, c=self.width, layout=self.layout)
        width = self.width
        for more in (*hidden, classes):
            self.add("dense", m=1, k=width, n=more, epilogue="bias" if more == classes else "bias+relu")
            width = more
        return self.found


BN = "scale_shift"


def resnet(blocks, bottleneck, groups=1, base=64, size=224, layout="nhwc", excite=False, dilated=()):
    net = Layers(size, layout).conv(64, 7, 2, epilogue=BN + "+relu").pool(3, 2)
    for stage, repeats in enumerate(blocks):
        out = 64 * 2**stage * (4 if bottleneck else 1)
        inner = base * 2**stage
        for block in range(repeats):
            d = 2 if stage in dilated else 1
            s = 2 if block == 0 and stage > 0 and d == 1 else 1
            if net.width != out or s > 1:
                net.conv(out, 1, s, epilogue=BN, keep=True)
            if bottleneck:
                net.conv(inner, 1, epilogue=BN + "+relu").conv(inner, 3, s, d, groups, BN + "+relu").conv(
                    out, 1, epilogue=BN
                )
            else:
                net.conv(out, 3, s, epilogue=BN + "+relu").conv(out, 3, d=d, epilogue=BN + "+residual+relu")
            if excite:
                net.squeeze(16)
    return net.head()


def vgg(stages, size=224, layout="nchw"):
    net = Layers(size, layout)
    for width, repeats in stages:
        for _ in range(repeats):
            net.conv(width)
        net.pool(2, 2)
    return [
        *net.found,
        ("dense", {"m": 1, "k": 25088, "n": 4096, "epilogue": "bias+relu"}),
        ("dense", {"m": 1, "k": 4096, "n": 4096, "epilogue": "bias+relu"}),
    ]


def alexnet():
    net = (
        Layers(224, "nchw").conv(64, 11, 4).pool(3, 2).conv(192, 5).pool(3, 2).conv(384).conv(256).conv(256).pool(3, 2)
    )
    return net.found


def squeezenet():
    net = Layers(224, "nchw").conv(64, 3, 2).pool(3, 2)
    for small, out in (
        (16, 128),
        (16, 128),
        (0, 0),
        (32, 256),
        (32, 256),
        (0, 0),
        (48, 384),
        (48, 384),
        (64, 512),
        (64, 512),
    ):
        if small == 0:
            net.pool(3, 2)
            continue
        net.conv(small, 1).conv(out // 2, 1, keep=True).conv(out // 2, 3, keep=True)
        net.width = out
    return net.conv(1000, 1).head()


def inception_v3():
    net = Layers(299).conv(32, 3, 2).conv(32).conv(64).pool(3, 2).conv(80, 1).conv(192).pool(3, 2)
    for width in (192, 256, 288):
        net.width, net.size = width, 35
        net.conv(64, 1, keep=True).conv(48, 1).conv(64, 5)
        net.conv(96, 3).conv(96, 3)
        net.pool(3, 1, "avg")
    for inner in (128, 160, 192):
        net.width, net.size = 768, 17
        net.conv(192, 1, keep=True).conv(inner, 1).conv(inner, [1, 7]).conv(192, [7, 1])
    for width in (1280, 2048):
        net.width, net.size = width, 8
        net.conv(320, 1, keep=True).conv(384, 1).conv(384, [1, 3], keep=True).conv(384, [3, 1])
    net.width, net.size = 2048, 8
    return net.head()


def googlenet():
    net = Layers(224, "nchw").conv(64, 7, 2).pool(3, 2).conv(64, 1).conv(192).pool(3, 2)
    for size, table in (
        (28, ((192, 64, 96, 128, 16, 32), (256, 128, 128, 192, 32, 96))),
        (
            14,
            (
                (480, 192, 96, 208, 16, 48),
                (512, 160, 112, 224, 24, 64),
                (512, 112, 144, 288, 32, 64),
                (528, 256, 160, 320, 32, 128),
            ),
        ),
        (7, ((832, 384, 192, 384, 48, 128),)),
    ):
        for width, one, three_in, three, five_in, five in table:
            for out, k, inner in (
                (one, 1, width),
                (three_in, 1, width),
                (three, 3, three_in),
                (five_in, 1, width),
                (five, 5, five_in),
            ):
                net.size, net.width = size, inner
                net.conv(out, k, keep=True)
    return net.found


def densenet(blocks=(6, 12, 24, 16), growth=32):
    net = Layers(224).conv(64, 7, 2, epilogue=BN + "+relu").pool(3, 2)
    for stage, repeats in enumerate(blocks):
        begin = net.width
        for block in range(0, repeats, 3):
            net.width = begin + block * growth
            net.add("elementwise", rows=net.size**2, columns=net.width, epilogue=BN + "+relu")
            net.conv(4 * growth, 1, epilogue=BN + "+relu").conv(growth, 3, epilogue="")
        net.width = begin + repeats * growth
        if stage + 1 < len(blocks):
            net.conv(net.width // 2, 1, epilogue="").pool(2, 2, "avg")
    return net.head()


def mobilenet_v1(size=224, multiplier=1.0, layout="nhwc"):
    net = Layers(size, layout).conv(int(32 * multiplier), 3, 2, epilogue=BN + "+relu6")
    for out, s in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (1024, 2), (1024, 1)):
        net.depthwise(3, s).conv(int(out * multiplier), 1, epilogue=BN + "+relu6")
    return net.head()


def inverted(size, stem, table, act="relu6", layout="nhwc", last=1280, gate="hard_sigmoid", ratio=4):
    """Inverted residuals: table of (expansion, out, repeats, stride, kernel, squeeze)."""
    net = Layers(size, layout).conv(stem, 3, 2, epilogue=f"{BN}+{act}")
    for expansion, out, repeats, stride, k, excite in table:
        for block in range(repeats):
            before, s = net.width, stride if block == 0 else 1
            if expansion != 1:
                net.conv(int(before * expansion), 1, epilogue=f"{BN}+{act}")
            net.depthwise(k, s, epilogue=f"{BN}+{act}")
            if excite:
                net.squeeze(ratio, gate, "relu" if act != "silu" else "silu")
            net.conv(out, 1, epilogue=BN + ("+residual" if before == out and s == 1 else ""))
    return net.conv(last, 1, epilogue=f"{BN}+{act}").head()


V2 = (
    (1, 16, 1, 1, 3, 0),
    (6, 24, 2, 2, 3, 0),
    (6, 32, 3, 2, 3, 0),
    (6, 64, 4, 2, 3, 0),
    (6, 96, 3, 1, 3, 0),
    (6, 160, 3, 2, 3, 0),
    (6, 320, 1, 1, 3, 0),
)
V3 = (
    (1, 16, 1, 1, 3, 0),
    (4, 24, 1, 2, 3, 0),
    (3, 24, 1, 1, 3, 0),
    (3, 40, 3, 2, 5, 1),
    (6, 80, 1, 2, 3, 0),
    (2.5, 80, 3, 1, 3, 0),
    (6, 112, 2, 1, 3, 1),
    (6, 160, 3, 2, 5, 1),
)
V3_SMALL = (
    (1, 16, 1, 2, 3, 1),
    (4.5, 24, 1, 2, 3, 0),
    (3.67, 24, 1, 1, 3, 0),
    (4, 40, 1, 2, 5, 1),
    (6, 40, 2, 1, 5, 1),
    (3, 48, 2, 1, 5, 1),
    (6, 96, 3, 2, 5, 1),
)
MNAS = (
    (1, 16, 1, 1, 3, 0),
    (6, 24, 2, 2, 3, 0),
    (3, 40, 3, 2, 5, 1),
    (6, 80, 4, 2, 3, 0),
    (6, 112, 2, 1, 3, 1),
    (6, 160, 3, 2, 5, 1),
    (6, 320, 1, 1, 3, 0),
)
EFFICIENT = (
    (1, 16, 1, 1, 3, 1),
    (6, 24, 2, 2, 3, 1),
    (6, 40, 2, 2, 5, 1),
    (6, 80, 3, 2, 3, 1),
    (6, 112, 3, 1, 5, 1),
    (6, 192, 4, 2, 5, 1),
    (6, 320, 1, 1, 3, 1),
)
LITE = tuple((*row[:5], 0) for row in EFFICIENT)


def wider(table, factor):
    """Widths times the factor, rounded to multiples of 8."""
    return tuple((row[0], max(8, int(row[1] * factor + 4) // 8 * 8), *row[2:]) for row in table)


def shufflenet(widths=(144, 288, 576), groups=3):
    net = Layers(224, "nchw").conv(24, 3, 2, epilogue=BN + "+relu").pool(3, 2)
    for out, repeats in zip(widths, (4, 8, 4)):
        for block in range(repeats):
            s = 2 if block == 0 else 1
            inner = out // 4
            net.conv(inner, 1, g=1 if net.width == 24 else groups, epilogue=BN + "+relu")
            net.add("channel_shuffle", h=net.size, w=net.size, c=inner, groups=groups)
            net.depthwise(3, s, epilogue=BN).conv(out, 1, g=groups, epilogue=BN)
    return net.head()


def regnet(widths, depths, group_width, excite, stem=32):
    net = Layers(224).conv(stem, 3, 2, epilogue=BN + "+relu")
    for out, repeats in zip(widths, depths):
        for block in range(min(repeats, 2)):
            s = 2 if block == 0 else 1
            if s == 2:
                net.conv(out, 1, 2, epilogue=BN, keep=True)
            net.conv(out, 1, epilogue=BN + "+relu").conv(out, 3, s, g=out // group_width, epilogue=BN + "+relu")
            if excite:
                net.squeeze()
            net.conv(out, 1, epilogue=BN + "+residual+relu")
    return net.head()


def convnext(widths=(96, 192, 384, 768)):
    net = Layers(224).conv(widths[0], 4, 4, epilogue="bias")
    for stage, width in enumerate(widths):
        if stage:
            net.add("layer_norm", rows=net.size**2, columns=net.width).conv(width, 2, 2, epilogue="bias")
        net.depthwise(7, epilogue="bias").add("layer_norm", rows=net.size**2, columns=width)
        net.add("dense", m=net.size**2, k=width, n=4 * width, epilogue="bias+gelu")
        net.add("dense", m=net.size**2, k=4 * width, n=width, epilogue="bias+residual")
    return net.head()


def ghostnet():
    net = Layers(224).conv(16, 3, 2, epilogue=BN + "+relu")
    for inner, out, k, s, excite in (
        (16, 16, 3, 1, 0),
        (48, 24, 3, 2, 0),
        (72, 40, 5, 2, 1),
        (240, 80, 3, 2, 0),
        (480, 112, 3, 1, 1),
        (672, 160, 5, 2, 1),
    ):
        net.conv(inner // 2, 1, epilogue=BN + "+relu").depthwise(3, epilogue=BN + "+relu")
        net.width = inner
        if s == 2:
            net.depthwise(k, s, epilogue=BN)
        if excite:
            net.squeeze(gate="hard_sigmoid")
        net.conv(out // 2, 1, epilogue=BN).depthwise(3, epilogue=BN)
        net.width = out
    return net.head()


def transformer(
    tokens, width, heads, hidden, layers_norm="layer_norm", epilogue="gelu", vocabulary=0, causal=0, size=None
):
    """One layer of an encoder or decoder, and its ends."""
    each = size or width // heads
    found = [
        ("dense", {"m": tokens, "k": width, "n": width, "epilogue": "bias"}),
        ("dense", {"m": tokens, "k": width, "n": 3 * width, "epilogue": "bias"}),
        ("batch_matmul", {"b": heads, "m": tokens, "k": each, "n": tokens, "scaled": 1}),
        ("softmax", {"rows": heads * tokens, "columns": tokens, "masked": causal}),
        ("batch_matmul", {"b": heads, "m": tokens, "k": tokens, "n": each, "transposed": 0}),
        ("transpose", {"shape": [tokens, heads, each], "order": [1, 0, 2]}),
        ("dense", {"m": tokens, "k": heads * each, "n": width, "epilogue": "bias+residual"}),
        ("dense", {"m": tokens, "k": width, "n": hidden, "epilogue": "bias+" + epilogue}),
        ("dense", {"m": tokens, "k": hidden, "n": width, "epilogue": "bias+residual"}),
    ]
    found.append((layers_norm, {"rows": tokens, "columns": width}))
    if layers_norm == "layer_norm":
        found.append(("layer_norm", {"rows": tokens, "columns": width, "residual": 1}))
    if vocabulary:
        found += [
            ("dense", {"m": 1, "k": width, "n": vocabulary, "epilogue": ""}),
            ("softmax", {"rows": 1, "columns": vocabulary, "log": 1}),
        ]
    return found


def swin(size=56, widths=(96, 192, 384, 768), heads=(3, 6, 12, 24)):
    found = [("conv2d", {"h": 224, "w": 224, "ci": 3, "co": 96, "k": 4, "s": 4, "epilogue": "bias"})]
    for width, head in zip(widths, heads):
        windows, tokens = (size // 7) ** 2, size * size
        found += [
            ("layer_norm", {"rows": tokens, "columns": width}),
            ("dense", {"m": tokens, "k": width, "n": 3 * width, "epilogue": "bias"}),
            ("batch_matmul", {"b": windows * head, "m": 49, "k": 32, "n": 49, "scaled": 1}),
            ("softmax", {"rows": windows * head * 49, "columns": 49, "masked": 1}),
            ("batch_matmul", {"b": windows * head, "m": 49, "k": 49, "n": 32, "transposed": 0}),
            ("dense", {"m": tokens, "k": width, "n": 4 * width, "epilogue": "bias+gelu"}),
        ]
        size //= 2
    return found


def unet(size=128, widths=(32, 64, 128, 256, 512)):
    net = Layers(size, "nchw")
    for width in widths:
        net.conv(width).conv(width)
        if width != widths[-1]:
            net.pool(2, 2)
    for width in reversed(widths[:-1]):
        net.add("conv2d_transpose", h=net.size, w=net.size, ci=net.width, co=width, k=2, s=2, epilogue="bias")
        net.size, net.width = 2 * net.size, 2 * width
        net.conv(width).conv(width)
    return net.conv(2, 1, epilogue="bias+sigmoid").found


def dcgan(widths=(512, 256, 128, 64, 3)):
    found, size = [], 4
    for before, out in zip(widths, widths[1:]):
        found.append(
            (
                "conv2d_transpose",
                {
                    "h": size,
                    "w": size,
                    "ci": before,
                    "co": out,
                    "k": 4,
                    "s": 2,
                    "epilogue": BN + "+relu" if out > 3 else "tanh",
                },
            )
        )
        size *= 2
    net = Layers(64, "nchw")
    for out in (64, 128, 256, 512):
        net.conv(out, 4, 2, epilogue=BN + "+leaky_relu")
    return found + net.found


def style_transfer(size=128):
    net = (
        Layers(size, "nchw")
        .conv(32, 9, epilogue="bias")
        .add("group_norm", h=size, w=size, c=32, groups=32, epilogue="relu")
    )
    for out in (64, 128):
        net.conv(out, 3, 2, epilogue="bias").add(
            "group_norm", h=net.size, w=net.size, c=out, groups=out, epilogue="relu"
        )
    net.conv(128, epilogue="bias").add("group_norm", h=net.size, w=net.size, c=128, groups=128, epilogue="residual")
    for out in (64, 32):
        net.add("resize", h=net.size, w=net.size, c=net.width, factor=2, method="nearest_neighbor", layout="nchw")
        net.size *= 2
        net.conv(out, epilogue="bias")
    return net.conv(3, 9, epilogue="bias+tanh").found


def diffusion(size=32, widths=(128, 256, 512)):
    """A small U-Net of diffusion models."""
    net = Layers(size, "nchw", 4)
    for width in widths:
        net.conv(width, epilogue="bias").add("group_norm", h=net.size, w=net.size, c=width, groups=32, epilogue="silu")
        net.conv(width, epilogue="bias+residual")
        tokens = net.size**2
        if net.size <= 16:
            net.add("batch_matmul", b=4, m=tokens, k=width // 4, n=tokens, scaled=1).add(
                "softmax", rows=4 * tokens, columns=tokens
            )
        net.conv(width, 3, 2, epilogue="bias")
    net.add("resize", h=net.size, w=net.size, c=net.width, factor=2, method="nearest_neighbor", layout="nchw")
    return net.found


def yolo_tiny(size=416):
    net = Layers(size, "nchw")
    for width in (16, 32, 64, 128, 256, 512):
        net.conv(width, epilogue=BN + "+leaky_relu").pool(2, 2)
    net.conv(1024, epilogue=BN + "+leaky_relu").conv(256, 1, epilogue=BN + "+leaky_relu")
    return (
        net.add("resize", h=net.size, w=net.size, c=128, factor=2, method="nearest_neighbor", layout="nchw")
        .conv(255, 1, epilogue="bias")
        .found
    )


def ssd_heads():
    found = []
    for size, width in ((38, 512), (19, 1024), (10, 512), (5, 256)):
        net = (
            Layers(size, "nhwc", width).conv(24, 3, epilogue="bias", keep=True).conv(126, 3, epilogue="bias", keep=True)
        )
        found += net.found
    return found


def deeplab():
    net = Layers(33, "nhwc", 2048)
    for d in (6, 12, 18):
        net.conv(256, 3, d=d, epilogue=BN + "+relu", keep=True)
    net.conv(256, 1, epilogue=BN + "+relu")
    net.add("resize", h=33, w=33, c=256, factor=4).add("resize", h=65, w=65, c=21, factor=4)
    net.size, net.width = 129, 304
    return net.depthwise(3, epilogue=BN + "+relu").conv(256, 1, epilogue=BN + "+relu").found


def video(name):
    if name == "c3d":
        return [
            (
                "conv3d",
                {
                    "t": t,
                    "h": s,
                    "w": s,
                    "ci": ci,
                    "co": co,
                    "kt": 3,
                    "k": 3,
                    "layout": "ncdhw",
                    "epilogue": "bias+relu",
                },
            )
            for t, s, ci, co in (
                (16, 56, 3, 64),
                (16, 28, 64, 64),
                (8, 28, 64, 128),
                (4, 14, 128, 256),
                (4, 14, 256, 256),
                (2, 7, 512, 512),
            )
        ] + [("pool3d", {"t": 16, "h": 56, "w": 56, "c": 64, "k": 2, "s": 2})]
    return [
        (
            "conv3d",
            {"t": t, "h": s, "w": s, "ci": ci, "co": co, "kt": kt, "k": k, "s": stride, "epilogue": BN + "+relu"},
        )
        for t, s, ci, co, kt, k, stride in (
            (8, 56, 3, 45, 1, 7, 2),
            (8, 28, 45, 64, 3, 1, 1),
            (8, 28, 64, 144, 1, 3, 1),
            (8, 28, 144, 64, 3, 1, 1),
            (8, 28, 64, 230, 1, 3, 2),
            (4, 14, 230, 128, 3, 1, 1),
            (4, 14, 128, 288, 1, 3, 1),
        )
    ] + [("pool3d", {"t": 8, "h": 28, "w": 28, "c": 64, "k": 3, "s": 2, "kind": "avg"})]


def speech(name):
    if name == "wav2vec2":
        found, length, width = [], 8000, 1
        for k, s in ((10, 5), (3, 2), (3, 2), (3, 2), (2, 2)):
            found.append(("conv1d", {"length": length, "ci": width, "co": 512, "k": k, "s": s, "epilogue": "gelu"}))
            length, width = length // s, 512
        return found + [("conv1d", {"length": 100, "ci": 768, "co": 768, "k": 15, "g": 16, "epilogue": "gelu"})]
    if name == "tcn":
        return [
            ("conv1d", {"length": 512, "ci": ci, "co": 150, "k": 3, "d": d, "layout": "nwc", "epilogue": "bias+relu"})
            for ci, d in ((88, 1), (150, 2), (150, 4), (150, 8), (150, 16))
        ]
    if name == "quartznet":
        return [
            layer
            for k, width in ((33, 256), (39, 256), (51, 512), (63, 512), (75, 512))
            for layer in (
                ("conv1d", {"length": 400, "ci": width, "co": width, "k": k, "g": width}),
                ("conv1d", {"length": 400, "ci": width, "co": width, "k": 1, "epilogue": BN + "+relu"}),
            )
        ]
    return [
        ("conv1d", {"length": 1500, "ci": 80, "co": 384, "k": 3, "epilogue": "bias+gelu"}),  # whisper
        ("conv1d", {"length": 1500, "ci": 384, "co": 384, "k": 3, "s": 2, "epilogue": "bias+gelu"}),
        *transformer(375, 384, 6, 1536),
    ]


def conformer(tokens=200, width=256):
    return transformer(tokens, width, 4, 1024, epilogue="silu") + [
        ("conv1d", {"length": tokens, "ci": width, "co": 2 * width, "k": 1, "layout": "nwc", "epilogue": "bias"}),
        ("conv1d", {"length": tokens, "ci": width, "co": width, "k": 31, "g": width, "epilogue": BN + "+silu"}),
    ]


def recommender(name):
    if name == "dlrm":
        found = [
            ("embedding_bag", {"vocabulary": v, "width": 64, "bags": 256, "each": e})
            for v, e in ((1000, 4), (10000, 16), (100000, 32))
        ]
        for k, n in ((13, 512), (512, 256), (256, 64), (415, 512), (512, 256)):
            found.append(("dense", {"m": 256, "k": k, "n": n, "epilogue": "bias+relu"}))
        return found + [
            ("batch_matmul", {"b": 256, "m": 27, "k": 64, "n": 27}),
            ("dense", {"m": 256, "k": 256, "n": 1, "epilogue": "bias+sigmoid"}),
        ]
    found = [("embedding_bag", {"vocabulary": 20000, "width": 32, "bags": 1024, "each": e}) for e in (1, 8, 50)]
    for k, n in ((256, 1024), (1024, 512), (512, 256)):
        found.append(("dense", {"m": 128, "k": k, "n": n, "epilogue": "bias+relu"}))
    return found


def recurrent(name):
    return {
        "lstm_lm": [
            ("lstm_cell", {"rows": 16, "inputs": 200, "width": 200}),
            ("lstm_cell", {"rows": 1, "inputs": 650, "width": 650}),
            ("dense", {"m": 20, "k": 200, "n": 10000, "epilogue": "bias"}),
        ],
        "deepspeech2": [
            ("gru_cell", {"rows": 1, "inputs": 800, "width": 800}),
            ("gru_cell", {"rows": 8, "inputs": 512, "width": 512}),
            (
                "conv2d",
                {
                    "h": 81,
                    "w": 200,
                    "ci": 32,
                    "co": 32,
                    "k": [21, 11],
                    "s": 2,
                    "layout": "nchw",
                    "epilogue": BN + "+relu6",
                },
            ),
        ],
        "gnmt": [
            ("lstm_cell", {"rows": 4, "inputs": 1024, "width": 1024}),
            ("batch_matmul", {"b": 16, "m": 1, "k": 1024, "n": 40}),
            ("softmax", {"rows": 16, "columns": 40}),
        ],
        "tacotron2": [
            ("conv1d", {"length": 120, "ci": 512, "co": 512, "k": 5, "epilogue": BN + "+relu"}),
            ("conv1d", {"length": 400, "ci": 80, "co": 512, "k": 5, "epilogue": BN + "+tanh"}),
            ("lstm_cell", {"rows": 1, "inputs": 768, "width": 512}),
        ],
    }[name]


def graph(name):
    if name == "pointnet":
        return [
            ("conv1d", {"length": 1024, "ci": ci, "co": co, "k": 1, "epilogue": BN + "+relu"})
            for ci, co in ((3, 64), (64, 64), (64, 128), (128, 1024))
        ] + [("reduction", {"rows": 1024, "columns": 1024, "kind": "max"})]
    return [
        ("dense", {"m": 2708, "k": 1433, "n": 16, "epilogue": "bias+relu"}),
        ("embedding_bag", {"vocabulary": 2708, "width": 16, "bags": 2708, "each": 5}),
        ("softmax", {"rows": 2708, "columns": 7, "log": 1}),
    ]


def mixer(tokens=196, width=512):
    return [
        ("transpose", {"shape": [tokens, width], "order": [1, 0]}),
        ("dense", {"m": width, "k": tokens, "n": 256, "epilogue": "bias+gelu"}),
        ("dense", {"m": width, "k": 256, "n": tokens, "epilogue": "bias"}),
        ("layer_norm", {"rows": tokens, "columns": width}),
        ("dense", {"m": tokens, "k": width, "n": 2048, "epilogue": "bias+gelu"}),
    ]


NETWORKS = {
    "resnet_18": lambda: resnet((2, 2, 2, 2), False, layout="nchw"),
    "resnet_50": lambda: resnet((3, 4, 6, 3), True),
    "resnet_50_192": lambda: resnet((3, 4, 6, 3), True, size=192, layout="nchw"),
    "wide_resnet_50": lambda: resnet((1, 1, 1, 1), True, base=128),
    "resnext_50": lambda: resnet((3, 4, 6, 3), True, 32, 128, layout="nchw"),
    "fcn_resnet_50": lambda: resnet((1, 1, 2, 2), True, size=160, dilated=(2, 3)),
    "vgg_11": lambda: vgg(((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)), 112),
    "alexnet": alexnet,
    "squeezenet": squeezenet,
    "googlenet": googlenet,
    "inception_v3": inception_v3,
    "densenet_121": densenet,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v1_half": lambda: mobilenet_v1(160, 0.5, "nchw"),
    "mobilenet_v2": lambda: inverted(224, 32, V2),
    "mobilenet_v2_140": lambda: inverted(192, 48, wider(V2, 1.4), layout="nchw"),
    "mobilenet_v3_large": lambda: inverted(224, 16, V3, "hard_swish", last=960),
    "mobilenet_v3_small": lambda: inverted(224, 16, V3_SMALL, "hard_swish", "nchw", 576),
    "mnasnet": lambda: inverted(224, 32, MNAS, "relu"),
    "efficientnet_b0": lambda: inverted(224, 32, EFFICIENT, "silu", gate="sigmoid"),
    "efficientnet_lite2": lambda: inverted(260, 32, wider(LITE, 1.1)),
    "shufflenet_v1": shufflenet,
    "regnetx_400mf": lambda: regnet((32, 64, 160, 384), (1, 2, 7, 12), 16, False),
    "bert_tiny": lambda: transformer(128, 128, 2, 512),
    "bert_base": lambda: transformer(128, 768, 12, 3072),
    "distilbert_384": lambda: transformer(384, 768, 12, 3072),
    "gpt_2": lambda: transformer(64, 768, 12, 3072, vocabulary=50257, causal=1),
    "llama_small": lambda: transformer(32, 1024, 16, 2816, "rms_norm", "silu", causal=1),
    "vit_small": lambda: transformer(197, 384, 6, 1536),
    "t5_small": lambda: transformer(100, 512, 8, 2048, "rms_norm", "relu", size=64),
    "mlp_mixer": mixer,
    "whisper_tiny": lambda: speech("whisper"),
    "wav2vec2": lambda: speech("wav2vec2"),
    "tcn": lambda: speech("tcn"),
    "quartznet": lambda: speech("quartznet"),
    "c3d": lambda: video("c3d"),
    "r2plus1d": lambda: video("r2plus1d"),
    "unet": unet,
    "dcgan": dcgan,
    "style_transfer": style_transfer,
    "diffusion": diffusion,
    "yolo_tiny": yolo_tiny,
    "ssd_heads": ssd_heads,
    "deeplab": deeplab,
    "dlrm": lambda: recommender("dlrm"),
    "youtube_dnn": lambda: recommender("youtube"),
    "lstm_lm": lambda: recurrent("lstm_lm"),
    "deepspeech2": lambda: recurrent("deepspeech2"),
    "gnmt": lambda: recurrent("gnmt"),
    "tacotron2": lambda: recurrent("tacotron2"),
    "pointnet": lambda: graph("pointnet"),
    "gcn": lambda: graph("gcn"),
}

# Never measured for training: searches are judged on these.
HELD_OUT = {
    "regnety_800mf": lambda: regnet((64, 144, 320, 784), (1, 3, 8, 2), 16, True),
    "convnext_tiny": convnext,
    "ghostnet": ghostnet,
    "swin_tiny": swin,
    "conformer": conformer,
    "se_resnext_50": lambda: resnet((1, 1, 1, 1), True, 32, 128, excite=True),
}
