/* libforetime: trained cost models for tuners. A plain C interface to bundles that `foretime export` writes. It needs
 * neither LibTorch nor a GPU, starts no threads unless asked to, writes nothing to standard output, and never ends the
 * process.
 *
 * Scores: LOWER IS FASTER, as everywhere in Foretime. A score is float32; inputs that cannot be scored get +infinity.
 *
 * Threads: any number of threads may use one model, graph, workload, list of files or group at the same time. An object
 * must not be closed while another thread uses it. A graph or workload keeps its model alive, so the order of closing
 * does not matter.
 *
 * Errors: every function that can fail returns a foretime_status. The message of the last failure in this thread is
 * foretime_last_error(). A function that fails writes to none of its results. No exception crosses this interface.
 *
 * Sizes: structures begin with their size, set by the caller (sizeof), so that later versions can append members.
 */
#ifndef FORETIME_H
#define FORETIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FORETIME_API __attribute__((visibility("default")))
#else
#define FORETIME_API
#endif

/* Increased when a function changes its meaning or is removed, not when functions and members are added. */
#define FORETIME_ABI_VERSION 1

typedef enum foretime_status {
  FORETIME_OK = 0,
  FORETIME_INVALID_ARGUMENT = 1, /* a null pointer, a negative or too large size, a structure of another version */
  FORETIME_FILE_ERROR = 2,       /* a file that cannot be opened or read */
  FORETIME_BAD_BUNDLE = 3, /* a bundle that is damaged, or has another version or schema; the message has a remedy */
  FORETIME_BAD_INPUT = 4,  /* a graph, module, compute DAG, record or program that is damaged or does not fit */
  FORETIME_WRONG_KIND = 5, /* the model scores other candidates (foretime_model_kind), or lacks what is asked for */
  FORETIME_OUT_OF_MEMORY = 6,
  FORETIME_INTERNAL_ERROR = 7
} foretime_status;

/* What a model scores. */
typedef enum foretime_kind {
  FORETIME_LAYOUT = 0, /* layouts of the configurable nodes of one graph */
  FORETIME_TILE = 1,   /* tile sizes of one kernel's graph */
  FORETIME_LOOPS = 2,  /* loop programs: auto_scheduler records, or TIR */
  FORETIME_TREES = 3   /* syntax trees: TIR */
} foretime_kind;

typedef struct foretime_model foretime_model;       /* an opened bundle; never changes */
typedef struct foretime_graph foretime_graph;       /* a graph whose candidates are scored: prepared once */
typedef struct foretime_workload foretime_workload; /* a compute DAG whose schedules are scored: prepared once */

/* Returns the FORETIME_ABI_VERSION of the loaded library. */
FORETIME_API int foretime_abi_version(void);
/* Returns the version of the library, e.g. "0.2.0". */
FORETIME_API const char* foretime_version(void);
/* Returns a status in words, e.g. "bad input"; "unknown status" for other numbers. */
FORETIME_API const char* foretime_status_name(foretime_status status);

/* Returns the message of the last failure in this thread, UTF-8, valid until the next one; "" if there was none. */
FORETIME_API const char* foretime_last_error(void);

typedef struct foretime_options {
  size_t size;        /* sizeof(foretime_options) */
  int32_t threads;    /* threads that one call may use, including the caller's: 1 to 256; 0 means 1 */
  int64_t max_states; /* states (rows of hidden vectors) that a thread holds, which limits memory; 0 means 262144 */
} foretime_options;

/* Opens the file of a bundle. `options` may be NULL. A path without / and . that is no file is the name of a model that
 * comes with Foretime (`foretime pretrained list`). */
FORETIME_API foretime_status foretime_open(const char* path, const foretime_options* options, foretime_model** model);
/* Opens the bytes of a bundle, which need not stay valid afterwards. `options` may be NULL. */
FORETIME_API foretime_status foretime_open_bytes(const void* bytes, size_t size, const foretime_options* options,
                                                 foretime_model** model);
/* Closes a model. NULL is ignored, as by all functions that close. */
FORETIME_API void foretime_close(foretime_model* model);

/* Returns the kind of candidates that the model scores; FORETIME_LAYOUT for NULL. */
FORETIME_API foretime_kind foretime_model_kind(const foretime_model* model);

/* Returns the file that the model was opened from, also by its name; "" if it was opened from bytes. Points into the
 * model. Since 0.2. */
FORETIME_API const char* foretime_model_file(const foretime_model* model);

/* Returns the bundle's manifest as JSON text (docs/reference/bundle.md): architecture, feature schema, training data,
 * metrics, licence. Points into the model, ends with a zero byte; `size`, unless NULL, gets the length. */
FORETIME_API const char* foretime_describe(const foretime_model* model, size_t* size);

/* A graph, as in TpuGraphs' .npz files. */
typedef struct foretime_graph_data {
  size_t size; /* sizeof(foretime_graph_data) */
  int64_t nodes;
  int64_t features;           /* columns of node_features: feature_count of the manifest's schema, 140 for HLO */
  const float* node_features; /* [nodes, features] */
  const uint8_t* node_types;  /* [nodes] HLO opcodes */
  int64_t edges;
  const int32_t* edge_consumer;      /* [edges] node that reads the tensor, as column 0 of edge_index */
  const int32_t* edge_producer;      /* [edges] node that makes the tensor, as column 1 of edge_index */
  int64_t configurable;              /* FORETIME_LAYOUT: number of configurable nodes; else 0 */
  const int32_t* configurable_nodes; /* [configurable] ascending */
  int32_t collection;                /* 0: none or unknown; else 1 + the place in layout:xla:random, layout:xla:default,
                                        layout:nlp:random, layout:nlp:default, tile:xla; only some models look at it */
  int32_t reserved;                  /* 0 */
} foretime_graph_data;

/* Prepares a graph from arrays, which are copied. FORETIME_LAYOUT and FORETIME_TILE models only. */
FORETIME_API foretime_status foretime_graph_open(const foretime_model* model, const foretime_graph_data* data,
                                                 foretime_graph** graph);
/* Prepares the graph of an XLA module in protobuf: the bytes of a HloModuleProto, HloProto or ModuleTuningData.
 * FORETIME_LAYOUT and FORETIME_TILE models only. */
FORETIME_API foretime_status foretime_graph_open_hlo(const foretime_model* model, const void* bytes, size_t size,
                                                     foretime_graph** graph);
FORETIME_API void foretime_graph_close(foretime_graph* graph);
/* Returns the number of nodes; 0 for NULL. */
FORETIME_API int64_t foretime_graph_nodes(const foretime_graph* graph);
/* Returns the number of configurable nodes; 0 for NULL. */
FORETIME_API int64_t foretime_graph_configurable(const foretime_graph* graph);
/* Returns the ids of the configurable nodes, [foretime_graph_configurable]. Points into the graph. */
FORETIME_API const int32_t* foretime_graph_configurable_nodes(const foretime_graph* graph);

/* Scores layouts of the configurable nodes of one graph.
 *   layouts [candidates, configurable, 18]: output, input and kernel layout, 6 dimensions each, -1 where unused
 *   scores  [candidates]
 * A model that compares candidates (the manifest's "compares_candidates") ranks those of one call among each other:
 * scores of two calls cannot be compared. Such a model refuses a call in which a node has more than 256 distinct
 * layouts (FORETIME_BAD_INPUT). */
FORETIME_API foretime_status foretime_score_layouts(const foretime_graph* graph, const int8_t* layouts,
                                                    int64_t candidates, float* scores);
/* Scores tile sizes of one graph; calls are comparable as for layouts.
 *   tiles   [candidates, 24]: kernel, output and input bounds, 6 dimensions, sum and product each
 *   scores  [candidates] */
FORETIME_API foretime_status foretime_score_tiles(const foretime_graph* graph, const float* tiles, int64_t candidates,
                                                  float* scores);

/* Prepares a workload from its compute DAG: one line of JSON, as tools/data/export_dags.py writes it from a live TVM
 * task. FORETIME_LOOPS models only. */
FORETIME_API foretime_status foretime_workload_open(const foretime_model* model, const char* compute_dag, size_t size,
                                                    foretime_workload** workload);
FORETIME_API void foretime_workload_close(foretime_workload* workload);

/* Scores schedules of a workload. A record is a line of auto_scheduler's JSON; its costs ("r") are ignored and may be
 * missing. A record that is no JSON, belongs to another workload, is for the other kind of device (CPU or GPU), or has
 * a schedule that does not apply gets score +infinity; the others are scored.
 *   records [count] texts of sizes[i] bytes each (sizes NULL: zero-terminated)
 *   scores  [count]
 *   failed  unless NULL, gets the number of unscored records; foretime_last_error() has the reason of the first
 * FORETIME_WRONG_KIND if all records are for the other kind of device. */
FORETIME_API foretime_status foretime_score_records(const foretime_workload* workload, const char* const* records,
                                                    const size_t* sizes, int64_t count, float* scores, int64_t* failed);

/* Returns the machine that a TVM target names (`-model=`) if the model does not know it and guesses its caches and
 * rates (docs/how-to/describe-a-machine.md). Returns a notice if a CPU's target names no machine although the model
 * knows some, or a GPU's no architecture. Otherwise, and if a pointer is NULL, returns "". Points into memory of this
 * thread, valid until its next call of this function. Since 0.2. */
FORETIME_API const char* foretime_unknown_machine(const foretime_model* model, const char* target);

/* Returns 1 if the model predicts each program's chance not to build or run in time; 0 otherwise and for NULL. */
FORETIME_API int foretime_predicts_failures(const foretime_model* model);

/* Scores as foretime_score_records does, and gives the chances of foretime_predicts_failures.
 *   failures [count] 0 to 1; NaN for a record that was not scored
 * FORETIME_WRONG_KIND where foretime_predicts_failures is 0. */
FORETIME_API foretime_status foretime_score_records_and_failures(const foretime_workload* workload,
                                                                 const char* const* records, const size_t* sizes,
                                                                 int64_t count, float* scores, float* failures,
                                                                 int64_t* failed);

/* Scores tensor programs: save_json text of a PrimFunc (or of an IRModule with one), of TVM 0.8 to 0.14. The other
 * parameters are as in foretime_score_records. FORETIME_LOOPS and FORETIME_TREES models only. */
FORETIME_API foretime_status foretime_score_tir(const foretime_model* model, const char* const* programs,
                                                const size_t* sizes, int64_t count, float* scores, int64_t* failed);

/* Scores as foretime_score_tir does, and gives the chances of failure as foretime_score_records_and_failures does. */
FORETIME_API foretime_status foretime_score_tir_and_failures(const foretime_model* model, const char* const* programs,
                                                             const size_t* sizes, int64_t count, float* scores,
                                                             float* failures, int64_t* failed);

/* Sets `order` to the indices of the `top` lowest scores (all if top < 0), lowest first; equal scores in the order of
 * their indices; NaN last.
 *   scores [count], order [min(top, count)] */
FORETIME_API foretime_status foretime_rank(const float* scores, int64_t count, int64_t top, int64_t* order);

/* Converts scores to run times in seconds, if the model was trained by a regression loss to predict them (the
 * manifest's "predicts_runtimes"). FORETIME_WRONG_KIND if it was not, or if run times are per arithmetic operation
 * ("targets") or relative to another run time ("runtime_unit"). +infinity stays. */
FORETIME_API foretime_status foretime_runtimes(const foretime_model* model, const float* scores, int64_t count,
                                               double* seconds);

/* Data files: .npz files, packed collections, XLA modules and tuning data in protobuf, folders and globs of them
 * (docs/reference/file-formats.md). A group is what is ranked together: one graph with its configurations, or one
 * workload with its programs. Packed collections are mapped: their arrays are not copied. */
typedef struct foretime_files foretime_files; /* the groups of files; only headers have been read */
typedef struct foretime_group foretime_group; /* a group that has been read and checked; never changes */

/* Lists the groups of `count` files, folders or globs. `model` or `format` ("layout", "tile" or "programs") may be
 * NULL, not both. With a model, groups are read in the form that it scores; with a format alone, programs are plain
 * syntax trees. FORETIME_WRONG_KIND if the model does not score `format`. */
FORETIME_API foretime_status foretime_files_open(const char* const* patterns, int64_t count, const char* format,
                                                 const foretime_model* model, foretime_files** files);
FORETIME_API void foretime_files_close(foretime_files* files);
/* Returns the number of groups; 0 for NULL. */
FORETIME_API int64_t foretime_files_count(const foretime_files* files);
/* Returns the name of group `place`, from 0; NULL if there is no such group. Points into `files`. */
FORETIME_API const char* foretime_files_name(const foretime_files* files, int64_t place);
/* Returns the path of the file of group `place`; NULL if there is no such group. Points into `files`. */
FORETIME_API const char* foretime_files_path(const foretime_files* files, int64_t place);

/* Reads group `place`. The group stays valid when `files` is closed. */
FORETIME_API foretime_status foretime_group_open(const foretime_files* files, int64_t place, foretime_group** group);
FORETIME_API void foretime_group_close(foretime_group* group);
/* Returns the number of candidates; 0 for NULL. */
FORETIME_API int64_t foretime_group_candidates(const foretime_group* group);
/* Returns JSON text: name, kind (layout, tile, programs), collection, unit of run times (nanoseconds, seconds,
 * normalized), candidates, ids of the candidates ([] without ids). Points into the group; `size`, unless NULL, gets the
 * length. */
FORETIME_API const char* foretime_group_describe(const foretime_group* group, size_t* size);

typedef struct foretime_array {
  size_t size;        /* sizeof(foretime_array), set by the caller */
  const char* name;   /* as in the table below */
  const char* type;   /* int8, uint8, int32, int64, float32 or float64 */
  int64_t dimensions; /* 1 to 3 */
  int64_t shape[3];   /* 1 beyond `dimensions` */
  const void* data;   /* by rows; belongs to the group */
} foretime_array;

/* Returns the number of arrays of a group, 0 for NULL. Empty ones are left out:
 *   graph_ptr, edge_ptr  int64 [graphs + 1]            nodes and edges of graph g begin at …_ptr[g]
 *   node_features        float32 [nodes, features]
 *   node_types           uint8 [nodes]
 *   edge_consumer        int32 [edges]                 consumers of tensors; parents in syntax trees
 *   edge_producer        int32 [edges]                 their producers; children in syntax trees
 *   node_splits          int64 [computations + 1]      layout: starts of the HLO computations, and the end
 *   configurable_nodes   int32 [configurable]          layout
 *   layout_row_ptr       int64 [configurable + 1]      layout: distinct rows of node j begin at …[j]
 *   layout_rows          int8 [rows, 18]
 *   layout_codes         uint8 [candidates, configurable]  row of candidate c at node j: layout_row_ptr[j] + code
 *   tile_features        float32 [candidates, 24]      tile
 *   runtimes             float64 [candidates]          in the unit of foretime_group_describe
 *   flops                float64 [candidates]          arithmetic operations */
FORETIME_API int64_t foretime_group_arrays(const foretime_group* group);
/* Describes array `place`, from 0. `array->size` must be set. */
FORETIME_API foretime_status foretime_group_array(const foretime_group* group, int64_t place, foretime_array* array);

/* Scores all candidates of a group, as `foretime rank` does.
 *   scores   [candidates]
 *   failures [candidates] chances of failure, or NULL; FORETIME_WRONG_KIND if foretime_predicts_failures is 0 */
FORETIME_API foretime_status foretime_score_group(const foretime_model* model, const foretime_group* group,
                                                  float* scores, float* failures);

/* Prepares the graph of a layout or tile group, for other candidates than the group's. */
FORETIME_API foretime_status foretime_graph_open_group(const foretime_model* model, const foretime_group* group,
                                                       foretime_graph** graph);

#ifdef __cplusplus
}
#endif
#endif /* FORETIME_H */
