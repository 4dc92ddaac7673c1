#include "models/safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/graph/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace foretime::models {
namespace {

using foretime::testing::message_of;
using ::testing::HasSubstr;

/// A file from a header and data as text.
std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string parse_error(const std::string& bytes) {
  return message_of<ModelError>([&] { parse_safetensors(bytes, "a.safetensors"); });
}

NamedTensors one_of_each_type() {
  const auto counts = torch::arange(6).reshape({2, 3});
  NamedTensors tensors;
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
                          torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8}) {
    tensors.emplace_back(std::string("t.") + c10::toString(type),
                         (counts * 3 - (type == torch::kUInt8 ? 0 : 7)).to(type));
  }
  tensors.emplace_back("t.Bool", counts > 2);
  tensors.emplace_back("scalar", torch::scalar_tensor(1.0 / 3, torch::kFloat64));
  tensors.emplace_back("empty", torch::empty({0, 4}));
  return tensors;
}

TEST(Safetensors, KeepEveryTypeShapeAndTheMetadata) {
  const auto tensors = one_of_each_type();
  const std::map<std::string, std::string> metadata = {{"step", "12"}, {"note", "quote \" and τ"}};
  const auto read = parse_safetensors(serialize_safetensors(tensors, metadata), "memory");
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto& copy = read.tensors.at(name);
    EXPECT_EQ(copy.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(copy.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(torch::equal(copy, tensor)) << name;
  }
}

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const auto bytes = serialize_safetensors(
      {{"b", torch::tensor({1, 2}, torch::kUInt8)}, {"a", torch::tensor({258}, torch::kInt16)}}, {{"k", "v"}});
  std::string header = R"({"__metadata__":{"k":"v"},"a":{"data_offsets":[0,2],"dtype":"I16","shape":[1]},)"
                       R"("b":{"data_offsets":[2,4],"dtype":"U8","shape":[2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(bytes, file_of(header, "\x02\x01\x01\x02"));
}

TEST(Safetensors, BytesDependOnContentAlone) {
  auto tensors = one_of_each_type();
  const auto bytes = serialize_safetensors(tensors, {{"a", "1"}, {"b", "2"}});
  std::reverse(tensors.begin(), tensors.end());
  EXPECT_EQ(serialize_safetensors(tensors, {{"b", "2"}, {"a", "1"}}), bytes);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
}

TEST(Safetensors, StridedAndDifferentiableTensorsAreWrittenAsTheyRead) {
  const auto base = torch::arange(12, torch::kFloat32).reshape({3, 4}).requires_grad_(true);
  const auto read = parse_safetensors(
      serialize_safetensors({{"t", base.t()}, {"s", base.slice(1, 1, 4, 2)}, {"e", torch::ones({1}).expand({5})}}),
      "memory");
  EXPECT_TRUE(torch::equal(read.tensors.at("t"), base.detach().t()));
  EXPECT_TRUE(torch::equal(read.tensors.at("s"), base.detach().slice(1, 1, 4, 2)));
  EXPECT_TRUE(torch::equal(read.tensors.at("e"), torch::ones({5})));
  EXPECT_FALSE(read.tensors.at("t").requires_grad());
}

TEST(Safetensors, ReadWhatOtherWritersMake) {
  // Data out of name order, an unpadded header, white space, and a member of an entry that this version does not know.
  const auto read = parse_safetensors(
      file_of(
          R"({ "b" : {"dtype":"U8","shape":[3],"data_offsets":[0,3],"extra":1}, "a":{"dtype":"I16","shape":[],"data_offsets":[3,5]} })",
          std::string("\x07\x08\x09\xfe\xff", 5)),
      "memory");
  EXPECT_TRUE(torch::equal(read.tensors.at("b"), torch::tensor({7, 8, 9}, torch::kUInt8)));
  EXPECT_EQ(read.tensors.at("a").item<int>(), -2);
  EXPECT_TRUE(parse_safetensors(file_of("{}"), "memory").tensors.empty());
}

TEST(Safetensors, RefuseToWriteWhatCannotBeRead) {
  const auto one = torch::ones({1});
  EXPECT_MESSAGE(message_of<ModelError>([&] { serialize_safetensors({{"a", one}, {"a", one}}); }), "tensor a");
  EXPECT_THAT(message_of<ModelError>([&] { serialize_safetensors({{"__metadata__", one}}); }), HasSubstr("reserved"));
  EXPECT_MESSAGE(message_of<ModelError>([&] { serialize_safetensors({{"a", torch::Tensor()}}); }), "tensor a");
  EXPECT_MESSAGE(message_of<ModelError>([&] { serialize_safetensors({{"a", one.to(torch::kComplexFloat)}}); }));
  EXPECT_MESSAGE(message_of<ModelError>([&] { serialize_safetensors({{"a", one.to_sparse()}}); }));
  EXPECT_THAT(message_of<ModelError>([&] { serialize_safetensors({{"\xff", one}}); }), HasSubstr("not UTF-8"));
}

TEST(Safetensors, AFileHasAtMostTenThousandTensors) {
  const auto with = [](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i)
      header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    return file_of(header + "}");
  };
  EXPECT_EQ(parse_safetensors(with(10'000), "memory").tensors.size(), 10'000);
  EXPECT_MESSAGE(parse_error(with(10'001)), "a.safetensors: header");
}

TEST(Safetensors, DamagedFilesAreNamedWithWhatIsWrong) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto a = [&](const std::string& dtype, const std::string& shape, const std::string& offsets,
                     const std::string& data) {
    return parse_error(file_of(R"({"a":)" + entry(dtype, shape, offsets) + "}", data));
  };
  const std::string u8 = R"("U8")";
  EXPECT_MESSAGE(parse_error("1234567"), "a.safetensors");
  EXPECT_MESSAGE(parse_error(std::string(8, '\xff') + "{}"), "a.safetensors");
  EXPECT_MESSAGE(parse_error(std::string(8, '\0')));
  EXPECT_MESSAGE(parse_error(file_of(" {}")));
  EXPECT_THAT(parse_error(file_of("{\"a\"")), HasSubstr("a.safetensors: header: not JSON"));
  EXPECT_THAT(parse_error(file_of("{\"\xff\":1}")), HasSubstr("not JSON"));
  EXPECT_MESSAGE(
      parse_error(file_of(R"({"a":)" + entry(u8, "[1]", "[0,1]") + R"(,"a":)" + entry(u8, "[1]", "[0,1]") + "}", "x")),
      "header");
  EXPECT_MESSAGE(parse_error(file_of(R"({"a":3})")), "tensor a");
  EXPECT_MESSAGE(parse_error(file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x")), "tensor a");
  EXPECT_MESSAGE(parse_error(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x")), "tensor a");
  EXPECT_MESSAGE(parse_error(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", "x")), "tensor a");
  EXPECT_MESSAGE(parse_error(file_of(R"({"__metadata__":[]})")), "__metadata__");
  EXPECT_MESSAGE(parse_error(file_of(R"({"__metadata__":{"k":1}})")), "__metadata__: k");

  EXPECT_MESSAGE(a("8", "[1]", "[0,1]", "x"), "tensor a: dtype");
  EXPECT_MESSAGE(a(R"("U9")", "[1]", "[0,1]", "x"), "tensor a: dtype");
  EXPECT_MESSAGE(a(u8, "1", "[0,1]", "x"), "tensor a: shape");
  EXPECT_MESSAGE(a(u8, "[-1]", "[0,1]", "x"), "tensor a: shape");
  EXPECT_MESSAGE(a(u8, "[1.0]", "[0,1]", "x"), "tensor a: shape");
  EXPECT_THAT(a(u8, "[4294967296,4294967296]", "[0,1]", "x"), HasSubstr("too large"));
  EXPECT_THAT(a(u8, "[0,4294967296,4294967296]", "[0,0]", ""), HasSubstr("too large"));
  EXPECT_THAT(a(u8, "[18446744073709551615]", "[0,1]", "x"), HasSubstr("too large"));
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_MESSAGE(a(u8, many + "]", "[0,1]", "x"));
  EXPECT_THAT(a(u8, "[1]", "[1]", "x"), HasSubstr("data_offsets: 1 numbers, expected 2"));
  EXPECT_MESSAGE(a(u8, "[1]", "[1,0]", "x"));
  EXPECT_MESSAGE(a(u8, "[2]", "[0,2]", "x"), "truncated");
  EXPECT_MESSAGE(a(R"("F32")", "[2]", "[0,4]", "abcd"));
  EXPECT_MESSAGE(a(u8, "[1]", "[1,2]", "xy"));
  EXPECT_MESSAGE(a(u8, "[1]", "[0,1]", "xy"));
  EXPECT_MESSAGE(a(R"("BOOL")", "[2]", "[0,2]", "\x01\x02"), "tensor a");
  EXPECT_MESSAGE(parse_error(file_of(
                     R"({"a":)" + entry(u8, "[2]", "[0,2]") + R"(,"b":)" + entry(u8, "[2]", "[1,3]") + "}", "xyz")),
                 "tensor b");
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const auto bytes = serialize_safetensors(one_of_each_type(), {{"k", "v"}});
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(parse_error(bytes.substr(0, length)), "no exception") << "first " << length << " bytes";
  }
  EXPECT_NE(parse_error(bytes + "x"), "no exception");
}

TEST(Safetensors, FlippedBytesNeverCrash) {
  const auto bytes = serialize_safetensors(one_of_each_type(), {{"k", "v"}});
  std::mt19937_64 random(17);
  int errors = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto damaged = bytes;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % bytes.size()] = static_cast<char>(random());
    errors += parse_error(damaged) != "no exception";
  }
  EXPECT_GT(errors, 5'000);
}

/// A second reader, written from the format's description with Python's standard library alone.
constexpr char kPythonReader[] = R"py(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", data[:8])
header, body = json.loads(data[8:8 + size]), data[8 + size:]
assert size % 8 == 0 and header.pop("__metadata__") == {"k": "v"}
def values(name, code):
    begin, end = header[name]["data_offsets"]
    return [v for v, in struct.iter_unpack("<" + code, body[begin:end])]
whole = [3 * i - 7 for i in range(6)]
for name, code in [("Double", "d"), ("Float", "f"), ("Half", "e"), ("Long", "q"), ("Int", "i"), ("Short", "h"), ("Char", "b")]:
    assert values("t." + name, code) == whole and header["t." + name]["shape"] == [2, 3], name
assert values("t.Byte", "B") == [3 * i for i in range(6)]
assert values("t.Bool", "?") == [i > 2 for i in range(6)]
assert [struct.unpack("<f", b"\0\0" + struct.pack("<H", v))[0] for v in values("t.BFloat16", "H")] == whole
assert values("scalar", "d") == [1 / 3] and header["scalar"]["shape"] == []
assert header["empty"]["shape"] == [0, 4]
)py";

TEST(SafetensorsFile, IsReadByAnotherImplementation) {
  if (std::system("python3 -c pass > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
  const foretime::testing::Scratch scratch;
  const auto file = scratch.write("a.safetensors", serialize_safetensors(one_of_each_type(), {{"k", "v"}}));
  const auto script = scratch.write("reader.py", kPythonReader);
  EXPECT_EQ(std::system(("python3 '" + script.string() + "' '" + file.string() + "'").c_str()), 0);
}

}  // namespace
}  // namespace foretime::models
