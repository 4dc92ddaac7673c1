"""The operators of the tasks that are measured: each makes the tensors of one program, inputs first, its output last.

Needs TVM (te, topi). An operator's arguments are numbers and texts, so that a task is a line of JSON. What follows an operator in the
same program is its `epilogue`: words joined by +, of EPILOGUES, for example "bias+relu" or "scale_shift+residual+relu".
"""
import math

from tvm import te, tir, topi


def tensor(name, *shape, dtype="float32"):
    """An input of a program."""
    return te.placeholder(shape, name=name, dtype=dtype)  # TVM's word


def hard_sigmoid(x):
    return topi.multiply(topi.clip(topi.add(x, 3.0), 0.0, 6.0), 1 / 6)


def gelu(x):
    return topi.multiply(topi.multiply(x, 0.5), topi.add(topi.erf(topi.multiply(x, math.sqrt(0.5))), 1.0))


ACTIVATIONS = {
    "relu": topi.nn.relu,
    "relu6": lambda x: topi.clip(x, 0.0, 6.0),
    "leaky_relu": lambda x: topi.nn.leaky_relu(x, 0.1),
    "sigmoid": topi.sigmoid,
    "tanh": topi.tanh,
    "silu": lambda x: topi.multiply(x, topi.sigmoid(x)),
    "gelu": gelu,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": lambda x: topi.multiply(x, hard_sigmoid(x)),
}
EPILOGUES = ("bias", "scale_shift", "residual", "gate", *ACTIVATIONS)


def follow(out, epilogue, axis):
    """([more inputs], output) of `out` and what follows it; `axis` is that of the channels."""
    inputs = []

    def by_channel(name):
        shape = [1] * len(out.shape)
        shape[axis] = out.shape[axis]
        inputs.append(tensor(name, *shape, dtype=out.dtype))
        return inputs[-1]

    for number, word in enumerate(filter(None, epilogue.split("+"))):
        if word in ACTIVATIONS:
            out = ACTIVATIONS[word](out)
        elif word == "bias":
            out = topi.add(out, by_channel("bias"))
        elif word == "scale_shift":  # a batch norm whose statistics are known
            out = topi.add(topi.multiply(out, by_channel("scale")), by_channel("shift"))
        elif word == "residual":
            inputs.append(tensor(f"residual{number}", *out.shape, dtype=out.dtype))
            out = topi.add(out, inputs[-1])
        elif word == "gate":  # of squeeze and excite
            out = topi.multiply(out, by_channel("gate"))
        else:
            raise ValueError(f"epilogue {word}: expected one of {', '.join(EPILOGUES)}")
    return inputs, out


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def same_padding(kernel, dilation=1):
    return tuple(dilation * (k - 1) // 2 for k in kernel)


def conv2d(h, w, ci, co, k, s=1, d=1, g=1, n=1, layout="nhwc", epilogue="", dtype="float32"):
    """g: groups; g = ci = co is a depthwise convolution."""
    kernel = pair(k)
    padding = same_padding(kernel, d)
    out_dtype = "int32" if dtype == "int8" else dtype
    data = tensor("data", *((n, h, w, ci) if layout == "nhwc" else (n, ci, h, w)), dtype=dtype)
    axis = 3 if layout == "nhwc" else 1
    depthwise = g > 1 and g == ci
    if layout == "nhwc":
        weight = tensor("weight", *kernel, *((ci, co // ci) if depthwise else (ci // g, co)), dtype=dtype)
    else:
        weight = tensor("weight", *((ci, co // ci) if depthwise else (co, ci // g)), *kernel, dtype=dtype)
    if depthwise:
        function = topi.nn.depthwise_conv2d_nhwc if layout == "nhwc" else topi.nn.depthwise_conv2d_nchw
        out = function(data, weight, s, padding, d, out_dtype)
    elif g > 1:
        function = topi.nn.group_conv2d_nhwc if layout == "nhwc" else topi.nn.group_conv2d_nchw
        out = function(data, weight, s, padding, d, g, out_dtype)
    else:
        function = topi.nn.conv2d_nhwc if layout == "nhwc" else topi.nn.conv2d_nchw
        out = function(data, weight, s, padding, d, out_dtype=out_dtype)
    more, out = follow(out, epilogue, axis)
    return [data, weight, *more, out]


def conv2d_nchwc(h, w, ci, co, k, s=1, d=1, n=1, block_in=16, block_out=16, epilogue=""):
    """Channels in blocks, as TVM lays them out for CPUs."""
    kernel = pair(k)
    data = tensor("data", n, ci // block_in, h, w, block_in)
    weight = tensor("weight", co // block_out, ci // block_in, *kernel, block_in, block_out)
    out = topi.nn.conv2d_NCHWc(data, weight, s, same_padding(kernel, d), d, f"NCHW{block_in}c", f"NCHW{block_out}c")
    more, out = follow(out, epilogue, 4)
    return [data, weight, *more, out]


def conv2d_winograd(h, w, ci, co, n=1, layout="nhwc", epilogue=""):
    """3 x 3 by Winograd's algorithm, the weights transformed beforehand in nhwc."""
    axis = 3 if layout == "nhwc" else 1
    if layout == "nhwc":
        data, weight = tensor("data", n, h, w, ci), tensor("weight", 6, 6, co, ci)  # of tiles of 4 x 4
        out = topi.nn.conv2d_winograd_nhwc_without_weight_transform(data, weight, 1, 1, 1, "float32")
    else:
        data, weight = tensor("data", n, ci, h, w), tensor("weight", co, ci, 3, 3)
        out = topi.nn.conv2d_winograd_nchw(data, weight, 1, 1, 1, "float32")
    more, out = follow(out, epilogue, axis)
    return [data, weight, *more, out]


def conv2d_transpose(h, w, ci, co, k, s, n=1, epilogue=""):
    """Each extent grows by s."""
    padding = (k - s) // 2
    data, weight = tensor("data", n, ci, h, w), tensor("weight", ci, co, k, k)
    out = topi.nn.conv2d_transpose_nchw(data, weight, (s, s), (padding, padding), "float32", ((k - s) % 2, (k - s) % 2))
    more, out = follow(out, epilogue, 1)
    return [data, weight, *more, out]


def conv1d(length, ci, co, k, s=1, d=1, g=1, n=1, layout="ncw", epilogue=""):
    padding = d * (k - 1) // 2
    data = tensor("data", *((n, length, ci) if layout == "nwc" else (n, ci, length)))
    weight = tensor("weight", *((k, ci // g, co) if layout == "nwc" else (co, ci // g, k)))
    if g > 1:
        function = topi.nn.group_conv1d_nwc if layout == "nwc" else topi.nn.group_conv1d_ncw
        out = function(data, weight, s, padding, d, g)
    else:
        function = topi.nn.conv1d_nwc if layout == "nwc" else topi.nn.conv1d_ncw
        out = function(data, weight, s, padding, d)
    more, out = follow(out, epilogue, 2 if layout == "nwc" else 1)
    return [data, weight, *more, out]


def conv3d(t, h, w, ci, co, kt, k, s=1, n=1, layout="ndhwc", epilogue=""):
    padding = same_padding((kt, k, k))
    if layout == "ndhwc":
        data, weight = tensor("data", n, t, h, w, ci), tensor("weight", kt, k, k, ci, co)
        out = topi.nn.conv3d_ndhwc(data, weight, s, padding, 1, 1)
    else:
        data, weight = tensor("data", n, ci, t, h, w), tensor("weight", co, ci, kt, k, k)
        out = topi.nn.conv3d_ncdhw(data, weight, s, padding, 1, 1)
    more, out = follow(out, epilogue, 4 if layout == "ndhwc" else 1)
    return [data, weight, *more, out]


def dense(m, k, n, epilogue="", dtype="float32"):
    data, weight = tensor("data", m, k, dtype=dtype), tensor("weight", n, k, dtype=dtype)
    out = topi.nn.dense(data, weight, out_dtype="int32" if dtype == "int8" else dtype)
    more, out = follow(out, epilogue, 1)
    return [data, weight, *more, out]


def batch_matmul(b, m, k, n, transposed=1, epilogue="", scaled=0):
    """`scaled`: divided by the root of k, as queries times keys are."""
    left, right = tensor("left", b, m, k), tensor("right", b, *((n, k) if transposed else (k, n)))
    out = topi.nn.batch_matmul(left, right, transpose_b=bool(transposed))
    if scaled:
        out = topi.multiply(out, 1 / math.sqrt(k))
    more, out = follow(out, epilogue, 2)
    return [left, right, *more, out]


def softmax(rows, columns, log=0, masked=0):
    data = tensor("data", rows, columns)
    inputs = [data]
    if masked:
        inputs.append(tensor("mask", rows, columns))
        data = topi.add(data, inputs[1])
    return [*inputs, (topi.nn.log_softmax if log else topi.nn.softmax)(data)]


def layer_norm(rows, columns, residual=0):
    data, gamma, beta = tensor("data", rows, columns), tensor("gamma", columns), tensor("beta", columns)
    inputs = [data, gamma, beta]
    if residual:
        inputs.append(tensor("residual", rows, columns))
        data = topi.add(data, inputs[-1])
    return [*inputs, topi.nn.layer_norm(data, gamma, beta, axis=[1])]


def rms_norm(rows, columns):
    data, weight = tensor("data", rows, columns), tensor("weight", columns)
    square = topi.sum(topi.multiply(data, data), axis=1, keepdims=True)
    return [
        data,
        weight,
        topi.multiply(topi.multiply(data, topi.rsqrt(topi.add(topi.multiply(square, 1 / columns), 1e-5))), weight),
    ]


def standardized(data, axes, count):
    """To mean 0 and deviation 1 over `axes`, of `count` elements, in two passes."""
    apart = topi.subtract(data, topi.multiply(topi.sum(data, axis=axes, keepdims=True), 1 / count))
    variance = topi.multiply(topi.sum(topi.multiply(apart, apart), axis=axes, keepdims=True), 1 / count)
    return topi.multiply(apart, topi.rsqrt(topi.add(variance, 1e-5)))


def group_norm(h, w, c, groups, n=1, epilogue=""):
    """Instance norm where there is a group for each channel."""
    data = tensor("data", n, c, h, w)
    if groups == c:
        more, out = follow(standardized(data, [2, 3], h * w), "scale_shift+" + epilogue, 1)
        return [data, *more, out]
    gamma, beta = tensor("gamma", c), tensor("beta", c)
    more, out = follow(topi.nn.group_norm(data, gamma, beta, groups, 1, [2, 3]), epilogue, 1)
    return [data, gamma, beta, *more, out]


def batch_norm(h, w, c, n=1, epilogue=""):
    """In training: the statistics are those of the batch."""
    data = tensor("data", n, h, w, c)
    more, out = follow(standardized(data, [0, 1, 2], n * h * w), "scale_shift+" + epilogue, 3)
    return [data, *more, out]


def pool2d(h, w, c, k, s, kind="max", n=1, layout="nhwc"):
    data = tensor("data", *((n, h, w, c) if layout == "nhwc" else (n, c, h, w)))
    p = (k - 1) // 2
    return [data, topi.nn.pool2d(data, (k, k), (s, s), (1, 1), (p, p, p, p), pool_type=kind, layout=layout.upper())]


def pool3d(t, h, w, c, k, s, kind="max", n=1):
    data = tensor("data", n, c, t, h, w)
    p = (k - 1) // 2
    return [data, topi.nn.pool3d(data, (k, k, k), (s, s, s), (1, 1, 1), (p,) * 6, pool_type=kind, layout="NCDHW")]


def global_pool(h, w, c, kind="avg", n=1, layout="nhwc", epilogue=""):
    data = tensor("data", *((n, h, w, c) if layout == "nhwc" else (n, c, h, w)))
    more, out = follow(topi.nn.global_pool(data, kind, layout.upper()), epilogue, 3 if layout == "nhwc" else 1)
    return [data, *more, out]


def adaptive_pool(h, w, c, out, n=1):
    data = tensor("data", n, c, h, w)
    return [data, topi.nn.adaptive_pool(data, (out, out), "avg", "NCHW")]


def resize(h, w, c, factor, method="linear", n=1, layout="nhwc"):
    data = tensor("data", *((n, h, w, c) if layout == "nhwc" else (n, c, h, w)))
    rounding = "" if method == "linear" else "round"
    return [
        data,
        topi.image.resize2d(
            data, [0.0] * 4, (h * factor, w * factor), layout.upper(), method, rounding_method=rounding
        ),
    ]


def reduction(rows, columns, kind="sum", axis=1):
    """sum, max, mean, square_sum (an L2 norm), argmax, variance."""
    data = tensor("data", rows, columns)
    functions = {
        "sum": topi.sum,
        "max": topi.max,
        "argmax": topi.argmax,
        "mean": lambda x, axis: topi.multiply(topi.sum(x, axis), 1 / (columns if axis else rows)),
        "square_sum": lambda x, axis: topi.sqrt(topi.sum(topi.multiply(x, x), axis)),
    }
    if kind == "variance":
        apart = topi.subtract(data, topi.multiply(topi.sum(data, axis, keepdims=True), 1 / (columns if axis else rows)))
        return [data, topi.sum(topi.multiply(apart, apart), axis)]
    return [data, functions[kind](data, axis=axis)]


def embedding_bag(vocabulary, width, bags, each):
    """The sum of a few rows of a table, for each bag of their numbers."""
    table, rows = tensor("table", vocabulary, width), tensor("rows", bags, each, dtype="int32")
    over = te.reduce_axis((0, each), name="each")
    return [table, rows, te.compute((bags, width), lambda b, i: te.sum(table[rows[b, over], i], axis=over), name="bag")]


def gates(data, state, width, count):
    """[rows, count x width]: what the gates of a recurrent cell sum up."""
    weight, recurrent = tensor("weight", count * width, data.shape[1]), tensor("recurrent", count * width, width)
    bias = tensor("bias", count * width)
    found = topi.add(topi.add(topi.nn.dense(data, weight), topi.nn.dense(state, recurrent)), bias)
    return [weight, recurrent, bias], found


def part(source, number, width, name):
    return te.compute((source.shape[0], width), lambda b, i: source[b, number * width + i], name=name)


def lstm_cell(rows, inputs, width):
    data, state, memory = tensor("data", rows, inputs), tensor("state", rows, width), tensor("memory", rows, width)
    parameters, found = gates(data, state, width, 4)
    take, forget, new, give = (part(found, i, width, name) for i, name in enumerate(("take", "forget", "new", "give")))
    kept = topi.add(topi.multiply(topi.sigmoid(forget), memory), topi.multiply(topi.sigmoid(take), topi.tanh(new)))
    return [data, state, memory, *parameters, topi.multiply(topi.sigmoid(give), topi.tanh(kept))]


def gru_cell(rows, inputs, width):
    data, state = tensor("data", rows, inputs), tensor("state", rows, width)
    parameters, found = gates(data, state, width, 3)
    update, reset, new = (part(found, i, width, name) for i, name in enumerate(("update", "reset", "new")))
    new = topi.tanh(topi.multiply(topi.sigmoid(reset), new))
    update = topi.sigmoid(update)
    kept = topi.multiply(update, state)
    return [data, state, *parameters, topi.add(kept, topi.multiply(topi.subtract(1.0, update), new))]


def elementwise(rows, columns, epilogue):
    data = tensor("data", rows, columns)
    more, out = follow(data, epilogue, 1)
    return [data, *more, out]


def transpose(shape, order):
    data = tensor("data", *shape)
    return [data, topi.transpose(data, order)]


def channel_shuffle(h, w, c, groups, n=1):
    data = tensor("data", n, c, h, w)
    size = c // groups
    return [
        data,
        te.compute(
            (n, c, h, w),
            lambda b, i, y, x: data[b, tir.indexmod(i, groups) * size + tir.indexdiv(i, groups), y, x],
            name="shuffle",
        ),
    ]


OPERATORS = {
    function.__name__: function
    for function in (
        conv2d,
        conv2d_nchwc,
        conv2d_winograd,
        conv2d_transpose,
        conv1d,
        conv3d,
        dense,
        batch_matmul,
        softmax,
        layer_norm,
        rms_norm,
        group_norm,
        batch_norm,
        pool2d,
        pool3d,
        global_pool,
        adaptive_pool,
        resize,
        reduction,
        embedding_bag,
        lstm_cell,
        gru_cell,
        elementwise,
        transpose,
        channel_shuffle,
    )
}
