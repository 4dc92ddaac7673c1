/* A library with the functions of foretime.h and answers that a test can foretell. A bundle's first byte is its kind.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foretime.h"

struct foretime_model {
  foretime_kind kind;
  char manifest[256], file[256];
};
struct foretime_graph {
  float sum;
  int64_t nodes, configurable;
  int32_t ids[16];
};
struct foretime_workload {
  float dag_bytes;
};

static _Thread_local char message[256];
static int open_objects = 0;

static foretime_status fail(foretime_status status, const char* text) {
  snprintf(message, sizeof message, "%s", text);
  return status;
}

FORETIME_API int fake_open_objects(void) { return open_objects; }

int foretime_abi_version(void) {
  const char* version = getenv("FAKE_ABI");
  return version ? atoi(version) : FORETIME_ABI_VERSION;
}
const char* foretime_version(void) { return "0.0-fake"; }
const char* foretime_status_name(foretime_status status) {
  return status == FORETIME_BAD_BUNDLE ? "bad bundle" : "other";
}
const char* foretime_last_error(void) { return message; }

foretime_status foretime_open_bytes(const void* bytes, size_t size, const foretime_options* options,
                                    foretime_model** model) {
  if (!options || options->size != sizeof *options) return fail(FORETIME_INVALID_ARGUMENT, "options of another size");
  const char kind = size ? *(const char*)bytes : 0;
  if (kind < '0' || kind > '3') return fail(FORETIME_BAD_BUNDLE, "no bundle; export it again");
  *model = malloc(sizeof **model);
  (*model)->kind = (foretime_kind)(kind - '0');
  (*model)->file[0] = 0;
  snprintf((*model)->manifest, sizeof(*model)->manifest,
           "{\"threads\": %d, \"max_states\": %lld, \"predicts_runtimes\": %s, \"name\": \"\xc3\xa9\"}",
           options->threads, (long long)options->max_states,
           size > 1 && ((const char*)bytes)[1] == 'r' ? "true" : "false");
  ++open_objects;
  return FORETIME_OK;
}
foretime_status foretime_open(const char* path, const foretime_options* options, foretime_model** model) {
  FILE* file = fopen(path, "rb");
  if (!file) return fail(FORETIME_FILE_ERROR, "cannot be opened");
  char bytes[8];
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  const foretime_status status = foretime_open_bytes(bytes, size, options, model);
  if (status == FORETIME_OK) snprintf((*model)->file, sizeof(*model)->file, "%s", path);
  return status;
}
void foretime_close(foretime_model* model) {
  if (model) --open_objects;
  free(model);
}
foretime_kind foretime_model_kind(const foretime_model* model) { return model->kind; }
const char* foretime_model_file(const foretime_model* model) { return model->file; }
const char* foretime_describe(const foretime_model* model, size_t* size) {
  if (size) *size = strlen(model->manifest);
  return model->manifest;
}

foretime_status foretime_graph_open(const foretime_model* model, const foretime_graph_data* data,
                                    foretime_graph** graph) {
  if (model->kind > FORETIME_TILE) return fail(FORETIME_WRONG_KIND, "no graphs");
  if (data->size != sizeof *data) return fail(FORETIME_INVALID_ARGUMENT, "graph data of another size");
  foretime_graph* made = calloc(1, sizeof *made);
  for (int64_t i = 0; i < data->nodes * data->features; ++i) made->sum += data->node_features[i];
  for (int64_t i = 0; i < data->nodes; ++i) made->sum += 10.0f * data->node_types[i];
  for (int64_t i = 0; i < data->edges; ++i)
    made->sum += 100.0f * data->edge_consumer[i] - 1000.0f * data->edge_producer[i];
  made->sum += 1e4f * data->collection;
  made->nodes = data->nodes;
  made->configurable = data->configurable;
  for (int64_t i = 0; i < data->configurable; ++i) made->ids[i] = data->configurable_nodes[i];
  ++open_objects;
  *graph = made;
  return FORETIME_OK;
}
foretime_status foretime_graph_open_hlo(const foretime_model* model, const void* bytes, size_t size,
                                        foretime_graph** graph) {
  (void)model, (void)bytes;
  *graph = calloc(1, sizeof **graph);
  (*graph)->nodes = (int64_t)size;
  ++open_objects;
  return FORETIME_OK;
}
void foretime_graph_close(foretime_graph* graph) {
  if (graph) --open_objects;
  free(graph);
}
int64_t foretime_graph_nodes(const foretime_graph* graph) { return graph->nodes; }
int64_t foretime_graph_configurable(const foretime_graph* graph) { return graph->configurable; }
const int32_t* foretime_graph_configurable_nodes(const foretime_graph* graph) { return graph->ids; }
foretime_status foretime_score_layouts(const foretime_graph* graph, const int8_t* layouts, int64_t candidates,
                                       float* scores) {
  for (int64_t c = 0; c < candidates; ++c) {
    scores[c] = graph->sum;
    for (int64_t i = 0; i < graph->configurable * 18; ++i) scores[c] += layouts[c * graph->configurable * 18 + i];
  }
  return FORETIME_OK;
}
foretime_status foretime_score_tiles(const foretime_graph* graph, const float* tiles, int64_t candidates,
                                     float* scores) {
  for (int64_t c = 0; c < candidates; ++c) {
    scores[c] = graph->sum;
    for (int i = 0; i < 24; ++i) scores[c] += tiles[c * 24 + i];
  }
  return FORETIME_OK;
}

foretime_status foretime_workload_open(const foretime_model* model, const char* compute_dag, size_t size,
                                       foretime_workload** workload) {
  if (model->kind != FORETIME_LOOPS) return fail(FORETIME_WRONG_KIND, "no workloads");
  if (!memchr(compute_dag, '{', size)) return fail(FORETIME_BAD_INPUT, "no compute DAG");
  *workload = malloc(sizeof **workload);
  (*workload)->dag_bytes = (float)size;
  ++open_objects;
  return FORETIME_OK;
}
void foretime_workload_close(foretime_workload* workload) {
  if (workload) --open_objects;
  free(workload);
}
static foretime_status score_texts(float added, const char* const* texts, const size_t* sizes, int64_t count,
                                   float* scores, int64_t* failed) {
  int64_t none = 0;
  for (int64_t i = 0; i < count; ++i) {
    const size_t size = sizes ? sizes[i] : strlen(texts[i]);
    const int bad = texts[i][0] != '{' || getenv("FAKE_UNSCORED") != NULL;
    scores[i] = bad ? INFINITY : added + (float)size;
    if (bad && none++ == 0) snprintf(message, sizeof message, "text %lld: no JSON", (long long)i);
  }
  if (failed) *failed = none;
  return FORETIME_OK;
}
foretime_status foretime_score_records(const foretime_workload* workload, const char* const* records,
                                       const size_t* sizes, int64_t count, float* scores, int64_t* failed) {
  return score_texts(workload->dag_bytes, records, sizes, count, scores, failed);
}
foretime_status foretime_score_tir(const foretime_model* model, const char* const* programs, const size_t* sizes,
                                   int64_t count, float* scores, int64_t* failed) {
  if (model->kind < FORETIME_LOOPS) return fail(FORETIME_WRONG_KIND, "no tensor programs");
  return score_texts(0.0f, programs, sizes, count, scores, failed);
}

const char* foretime_unknown_machine(const foretime_model* model, const char* target) {
  return model && strstr(target, "-model=far") ? "far" : "";
}
int foretime_predicts_failures(const foretime_model* model) { return strstr(model->manifest, "true") != NULL; }
static foretime_status score_failures(foretime_status status, const float* scores, int64_t count, float* failures) {
  for (int64_t i = 0; i < count; ++i) failures[i] = isinf(scores[i]) ? NAN : 1.0f / scores[i];
  return status;
}
foretime_status foretime_score_records_and_failures(const foretime_workload* workload, const char* const* records,
                                                    const size_t* sizes, int64_t count, float* scores, float* failures,
                                                    int64_t* failed) {
  return score_failures(score_texts(workload->dag_bytes, records, sizes, count, scores, failed), scores, count,
                        failures);
}
foretime_status foretime_score_tir_and_failures(const foretime_model* model, const char* const* programs,
                                                const size_t* sizes, int64_t count, float* scores, float* failures,
                                                int64_t* failed) {
  if (model->kind < FORETIME_LOOPS) return fail(FORETIME_WRONG_KIND, "no tensor programs");
  return score_failures(score_texts(0.0f, programs, sizes, count, scores, failed), scores, count, failures);
}

foretime_status foretime_rank(const float* scores, int64_t count, int64_t top, int64_t* order) {
  if (top < 0 || top > count) top = count;
  for (int64_t place = 0; place < top; ++place) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; ++i) {
      int taken = 0;
      for (int64_t j = 0; j < place; ++j) taken |= order[j] == i;
      if (!taken && (best < 0 || scores[i] < scores[best])) best = i;
    }
    order[place] = best;
  }
  return FORETIME_OK;
}
foretime_status foretime_runtimes(const foretime_model* model, const float* scores, int64_t count, double* seconds) {
  if (!strstr(model->manifest, "true")) return fail(FORETIME_WRONG_KIND, "does not predict run times");
  for (int64_t i = 0; i < count; ++i) seconds[i] = exp((double)scores[i] / 100.0);
  return FORETIME_OK;
}
