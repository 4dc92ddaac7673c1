#include "inference/graph/torchscript_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inference/error.h"

namespace foretime::inference {
namespace {

using inference::Operation;

/// What the operations need, once; each is the slow, obvious way to say it.
constexpr const char* kHelpers = R"(
def leaky(self, x: Tensor, slope: float) -> Tensor:
    return torch.where(x < 0, x * slope, x)

def rows_of(self, m: Dict[str, Tensor], name: str) -> Tensor:
    row_ptr = m[name + ".row_ptr"]
    rows = row_ptr.size(0) - 1
    return torch.repeat_interleave(torch.arange(rows, device=row_ptr.device), row_ptr[1:] - row_ptr[:rows])

def product(self, m: Dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"]) * m[name + ".values"].unsqueeze(1)
    return torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device).index_add(0, self.rows_of(m, name), messages)

def maxima(self, m: Dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"])
    index = self.rows_of(m, name).unsqueeze(1).expand_as(messages)
    zeros = torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device)
    return zeros.scatter_reduce(0, index, messages, "amax", include_self=False)

def pooled(self, m: Dict[str, Tensor], name: str, x: Tensor, mode: str) -> Tensor:
    stages: List[str] = []
    if name + ".row_ptr" in m:
        stages.append(name)
    else:
        stage = 0
        while name + "." + str(stage) + ".row_ptr" in m:
            stages.append(name + "." + str(stage))
            stage += 1
    counts = torch.ones([x.size(0), 1], dtype=x.dtype, device=x.device)
    for stage_name in stages:
        counts = self.product(m, stage_name, counts)
        if mode == "max":
            x = self.maxima(m, stage_name, x)
        else:
            x = self.product(m, stage_name, x)
    if mode == "mean":
        x = x / counts.clamp_min(1.0)
    return x

def softmax_by_row(self, m: Dict[str, Tensor], name: str, logits: Tensor) -> Tensor:
    rows = self.rows_of(m, name)
    count = m[name + ".row_ptr"].size(0) - 1
    index = rows.unsqueeze(1).expand_as(logits)
    zeros = torch.zeros([count, logits.size(1)], dtype=logits.dtype, device=logits.device)
    largest = zeros.scatter_reduce(0, index, logits, "amax", include_self=False)
    weights = torch.exp(logits - largest.index_select(0, rows)) * m[name + ".values"].unsqueeze(1)
    sums = zeros.index_add(0, rows, weights)
    return weights / torch.where(sums == 0, torch.ones_like(sums), sums).index_select(0, rows)

def weighted(self, m: Dict[str, Tensor], name: str, weights: Tensor, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"]).view([-1, weights.size(1), x.size(1) // weights.size(1)])
    messages = (messages * weights.unsqueeze(2)).view([-1, x.size(1)])
    return torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device).index_add(0, self.rows_of(m, name), messages)

def additive(self, m: Dict[str, Tensor], name: str, a: Tensor, b: Tensor, z: Tensor, slope: float) -> Tensor:
    logits = a.index_select(0, self.rows_of(m, name)) + b.index_select(0, m[name + ".columns"])
    return self.weighted(m, name, self.softmax_by_row(m, name, self.leaky(logits, slope)), z)

def dot(self, m: Dict[str, Tensor], name: str, a: Tensor, b: Tensor, z: Tensor, heads: int, scale: float) -> Tensor:
    products = a.index_select(0, self.rows_of(m, name)) * b.index_select(0, m[name + ".columns"])
    logits = products.view([-1, heads, a.size(1) // heads]).sum(2) * scale
    return self.weighted(m, name, self.softmax_by_row(m, name, logits), z)

def codes(self, x: Tensor, table: Tensor, values: int, least: float) -> Tensor:
    code = (x - least).clamp(0, values - 1).long()
    first = values * torch.arange(x.size(1), device=x.device)
    vectors = table.index_select(0, (code + first).view(-1)).view([x.size(0), -1])
    return vectors * (torch.arange(x.size(0), device=x.device).unsqueeze(1) > 0).to(x.dtype)

def signed_log(self, x: Tensor) -> Tensor:
    return torch.sign(x) * torch.log1p(torch.abs(x))

def standardized(self, x: Tensor, group_ptr: Tensor, epsilon: float) -> Tensor:
    groups: List[Tensor] = []
    for g in range(group_ptr.size(0) - 1):
        own = x[int(group_ptr[g]):int(group_ptr[g + 1])]
        centered = own - own.mean(0, keepdim=True)
        groups.append(centered * torch.rsqrt((centered * centered).mean(0, keepdim=True) + epsilon))
    return torch.cat(groups)

def compared(self, x: Tensor, group_ptr: Tensor, scale: Tensor) -> Tensor:
    groups: List[Tensor] = []
    for g in range(group_ptr.size(0) - 1):
        own = x[int(group_ptr[g]):int(group_ptr[g + 1])]
        groups.append(own * torch.softmax(own * scale, 0) * own.size(0))
    return torch.cat([x, torch.cat(groups)], 1)

def layer_norm(self, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    centered = x - x.mean(1, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(1, keepdim=True) + epsilon) * weight + bias

def top_nodes(self, m: Dict[str, Tensor], adjacency: str, nodes: str, result: str, x: Tensor, v: Tensor, ratio: float, tie: float) -> Tensor:
    score = torch.mv(x, v) / v.norm().clamp_min(1e-12)
    ptr = m[nodes + ".row_ptr"] if nodes + ".row_ptr" in m else m[nodes + ".0.row_ptr"]
    kept: List[Tensor] = []
    kept_ptr = [0]
    for g in range(ptr.size(0) - 1):
        first = int(ptr[g])
        own = score[first:int(ptr[g + 1])].double()
        count = own.size(0)
        wanted = float(count) * ratio * (1 - 1e-9)
        keep = int(wanted)
        if float(keep) < wanted:
            keep += 1
        keep = min(count, max(1, keep))
        order = torch.sort(-own, stable=True, dim=0, descending=False)[1]
        if keep < count:
            ranked = own.index_select(0, order)
            near = tie * max(abs(float(ranked[0])), abs(float(ranked[count - 1])))
            begin = keep
            end = keep
            while begin > 0 and not float(ranked[begin - 1]) - float(ranked[begin]) > near:
                begin -= 1
            if begin < keep:
                while end < count and not float(ranked[end - 1]) - float(ranked[end]) > near:
                    end += 1
                order = torch.cat([order[:begin], torch.sort(order[begin:end])[0], order[end:]])
        kept.append(torch.sort(order[:keep])[0] + first)
        kept_ptr.append(kept_ptr[len(kept_ptr) - 1] + keep)
    chosen = torch.cat(kept)
    place = torch.full([x.size(0)], -1, device=x.device).long().index_copy(0, chosen, torch.arange(chosen.size(0), device=x.device))
    rows = place.index_select(0, self.rows_of(m, adjacency))
    columns = place.index_select(0, m[adjacency + ".columns"])
    stay = ((rows >= 0) & (columns >= 0)).nonzero().view(-1)
    rows = rows.index_select(0, stay)
    columns = columns.index_select(0, stay)
    values = m[adjacency + ".values"].index_select(0, stay)
    counts = torch.zeros([chosen.size(0) + 1], device=x.device).long().index_add(0, rows + 1, torch.ones_like(rows))
    row_ptr = counts.cumsum(0)
    degree = torch.zeros([chosen.size(0)], dtype=x.dtype, device=x.device).index_add(0, rows, values)
    root = torch.rsqrt(degree)
    m[result + ".adjacency.row_ptr"] = row_ptr
    m[result + ".adjacency.columns"] = columns
    m[result + ".adjacency.values"] = values
    m[result + ".relation.row_ptr"] = row_ptr
    m[result + ".relation.columns"] = columns
    m[result + ".relation.values"] = values * root.index_select(0, rows) * root.index_select(0, columns)
    m[result + ".nodes.row_ptr"] = torch.tensor(kept_ptr, device=x.device)
    m[result + ".nodes.columns"] = torch.arange(chosen.size(0), device=x.device)
    m[result + ".nodes.values"] = torch.ones([chosen.size(0)], dtype=x.dtype, device=x.device)
    return x.index_select(0, chosen) * torch.tanh(score.index_select(0, chosen)).unsqueeze(1)
)";

class Writer {
 public:
  TorchScriptSource write(const inference::Form& form) {
    source_.text = kHelpers;
    source_.text += "\ndef embed(self, inputs: Dict[str, Tensor]) -> Tensor:\n    m = inputs.copy()\n";
    for (const char* name : {inference::kNodeFeatures, inference::kLayoutRows, inference::kCandidateFeatures}) {
      bool read = false;
      for (const auto& operation : form.embed) {
        for (const auto& input : operation.inputs) read = read || input == name;
      }
      if (read) line(fmt::format("{} = m[\"{}\"]", name, name));
    }
    for (const auto& operation : form.embed) line(operation.result + " = " + expression(operation));
    line("return " + form.embedded);
    source_.text += "\ndef score(self, embedded: Tensor, group_ptr: Tensor) -> Tensor:\n";
    for (const auto& operation : form.score) line(operation.result + " = " + expression(operation));
    line("return " + form.scores + ".squeeze(1)");
    source_.text +=
        "\ndef forward(self, inputs: Dict[str, Tensor]) -> Tensor:\n"
        "    return self.score(self.embed(inputs), inputs[\"group_ptr\"])\n";
    return std::move(source_);
  }

 private:
  void line(const std::string& text) { source_.text += "    " + text + "\n"; }

  std::string weight(const Operation& o, size_t i) {
    for (const auto& [attribute, name] : source_.attributes) {
      if (name == o.weights[i]) return "self." + attribute;
    }
    auto attribute = fmt::format("weight_{}", source_.attributes.size());
    source_.attributes.emplace(attribute, o.weights[i]);
    return "self." + attribute;
  }
  bool has_weight(const Operation& o, size_t i) const { return i < o.weights.size() && !o.weights[i].empty(); }

  static std::string number(double value) {
    auto text = fmt::format("{}", value);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  std::string activated(const Operation& o, const std::string& value) const {
    const double slope = o.number("slope", 1.0);
    return slope == 1.0 ? value : fmt::format("self.leaky({}, {})", value, number(slope));
  }

  std::string expression(const Operation& o) {
    const auto x = o.inputs.empty() ? std::string() : o.inputs[0];
    const auto m = o.matrices.empty() ? std::string() : fmt::format("m, \"{}\"", o.matrices[0]);
    if (o.op == "select")
      return fmt::format("{0}.index_select(1, torch.tensor([{1}], device={0}.device))", x, fmt::join(o.columns, ", "));
    if (o.op == "transform") {
      auto text = fmt::format("({} - {}) * {}", o.number("log", 0.0) != 0.0 ? fmt::format("self.signed_log({})", x) : x,
                              weight(o, 0), weight(o, 1));
      const double clip = o.number("clip", 0.0);
      return clip > 0.0 ? fmt::format("({}).clamp({}, {})", text, number(-clip), number(clip)) : text;
    }
    if (o.op == "codes")
      return fmt::format("self.codes({}, {}, {}, {})", x, weight(o, 0), static_cast<int64_t>(o.number("values", 1.0)),
                         number(o.number("least", 0.0)));
    if (o.op == "lookup") return fmt::format("{}.index_select(0, m[\"{}.columns\"])", weight(o, 0), o.matrices[0]);
    if (o.op == "dense") {
      const auto start = static_cast<int64_t>(o.number("start", 0.0));
      const auto w = weight(o, 0);
      auto text = fmt::format("{}.matmul({}[:, {}:{} + {}.size(1)].t())", x, w, start, start, x);
      if (has_weight(o, 1)) text = fmt::format("({} + {})", text, weight(o, 1));
      return activated(o, text);
    }
    if (o.op == "csr_sum") {
      std::string text;
      for (size_t t = 0; t < o.inputs.size(); ++t) {
        const auto term = o.matrices[t].empty()
                              ? o.inputs[t]
                              : fmt::format("self.product(m, \"{}\", {})", o.matrices[t], o.inputs[t]);
        text += (t == 0 ? "" : " + ") + term;
      }
      if (has_weight(o, 0)) text += " + " + weight(o, 0);
      return activated(o, "(" + text + ")");
    }
    if (o.op == "csr_max") return fmt::format("self.maxima({}, {})", m, x);
    if (o.op == "attention") {
      const auto inputs = fmt::format("{}", fmt::join(o.inputs, ", "));
      if (o.mode == "additive")
        return fmt::format("self.additive({}, {}, {})", m, inputs, number(o.number("logit_slope", 1.0)));
      return fmt::format("self.dot({}, {}, {}, {})", m, inputs, static_cast<int64_t>(o.number("heads", 1.0)),
                         number(o.number("scale", 1.0)));
    }
    if (o.op == "join") return fmt::format("torch.cat([{}], 1)", fmt::join(o.inputs, ", "));
    if (o.op == "add") {
      std::string text;
      for (size_t i = 0; i < o.inputs.size(); ++i)
        text += fmt::format("{}{} * {}", i == 0 ? "" : " + ", number(o.number(fmt::format("factor{}", i), 1.0)),
                            o.inputs[i]);
      return has_weight(o, 0) ? fmt::format("{} + {}", text, weight(o, 0)) : text;
    }
    if (o.op == "multiply") return fmt::format("{} * {}", o.inputs[0], o.inputs[1]);
    if (o.op == "activate") return o.mode == "leaky" ? activated(o, x) : fmt::format("torch.{}({})", o.mode, x);
    if (o.op == "normalize") {
      if (o.mode == "affine") return fmt::format("{} * {} + {}", x, weight(o, 0), weight(o, 1));
      if (o.mode == "layer")
        return fmt::format("self.layer_norm({}, {}, {}, {})", x, weight(o, 0), weight(o, 1),
                           number(o.number("epsilon", 1e-5)));
      return fmt::format("{} / {}.norm(2, -1, True).clamp_min({})", x, x, number(o.number("epsilon", 1e-12)));
    }
    if (o.op == "pool") return fmt::format("self.pooled({}, {}, \"{}\")", m, x, o.mode);
    if (o.op == "group") {
      if (o.mode == "softmax") return fmt::format("self.compared({}, group_ptr, {})", x, weight(o, 0));
      return fmt::format("self.standardized({}, group_ptr, {})", x, number(o.number("epsilon", 1e-5)));
    }
    if (o.op == "top_nodes")
      return fmt::format("self.top_nodes({}, \"{}\", \"{}\", {}, {}, {}, {})", m, o.matrices[1], o.result, x,
                         weight(o, 0), number(o.number("ratio", 1.0)), number(o.number("tie", 0.0)));
    throw inference::BundleError(fmt::format("form: operation {} ({}): unknown to TorchScript", o.result, o.op));
  }

  TorchScriptSource source_;
};

}  // namespace

TorchScriptSource torchscript_source(const inference::Form& form) { return Writer().write(form); }

}  // namespace foretime::inference
