#include "worker/store/type_vectors.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/counter_random.h"
#include "base/error.h"
#include "data/frontends/tir/embedding/type_embedding.h"
#include "data/graphs/schema.h"

namespace foretime::worker {
namespace {

std::span<const std::string_view> names_of(int64_t types) {
  const auto names = data::tir_type_names();
  if (types > std::ssize(names))
    throw DataError("model.node_types.vectors: the data have {} node types, expected at most the {} of tensor programs",
                    types, names.size());
  return names.first(types);
}

data::TypeEmbeddings read(const configs::Settings& settings, int64_t types) {
  const auto file = std::filesystem::path(settings.data.root) / settings.data.node_type_vectors;
  if (const auto admit = sharding::allowed_roots_check(settings.data)) admit(file);
  return data::read_type_vectors(file, names_of(types), settings.model.node_type_embedding);
}

data::TypeEmbeddings train(const configs::Settings& settings, const sharding::DatasetIndex& dataset, int64_t types,
                           const GroupStore& store) {
  const auto held = store.entries();
  std::deque<data::Group> opened;
  std::vector<const data::Group*> groups;
  for (const int64_t entry : dataset.with_role(sharding::Role::train)) {
    if (std::find(held.begin(), held.end(), entry) != held.end()) {
      groups.push_back(&store.get(entry).group);
    } else {
      opened.push_back(data::load_group(dataset.entries[entry].header));
      groups.push_back(&opened.back());
    }
  }
  const auto& from = settings.model.node_types;
  data::TypeEmbeddingSettings to;
  to.walks = {from.walks, from.walk_length, random_bits({settings.trainer.seed, random_stream::type_walks})};
  to.dims = settings.model.node_type_embedding;
  to.epochs = from.walk_epochs;
  to.window = from.walk_window;
  to.learning_rate = from.walk_rate;
  to.subwords = from.subwords;
  return data::train_type_embeddings(groups, names_of(types), to);
}

}  // namespace

torch::Tensor make_type_vectors(const configs::Settings& settings, const sharding::DatasetIndex& dataset, int64_t types,
                                const GroupStore& store, comm::Communicator& comm) {
  if (settings.model.node_types.vectors != configs::NodeTypeVectors::fasttext) return {};
  std::string bytes;
  comm::run_together(comm, [&] {
    if (comm.rank() != 0) return;
    const auto made =
        settings.data.node_type_vectors.empty() ? train(settings, dataset, types, store) : read(settings, types);
    bytes.assign(reinterpret_cast<const char*>(made.vectors.data()), made.vectors.size() * sizeof(float));
  });
  bytes = comm.broadcast_bytes(bytes, 0);
  return torch::from_blob(bytes.data(), {types, settings.model.node_type_embedding}, torch::kFloat).clone();
}

}  // namespace foretime::worker
