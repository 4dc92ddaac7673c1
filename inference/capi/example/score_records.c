/* Scores the schedules of a file by a trained model and prints the ten fastest:
 *
 *   score_records BUNDLE COMPUTE_DAG RECORDS [THREADS]
 *
 * COMPUTE_DAG holds one line of JSON (tools/data/export_dags.py), RECORDS auto_scheduler's JSON lines.
 *
 *   cc score_records.c $(pkg-config --cflags --libs foretime) -o score_records
 */
#include <foretime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP 10

/* A file with a zero byte behind it; NULL after a message. */
static char* read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  size_t size = 0, room = 1 << 16;
  char* text = malloc(room + 1);
  while (file && text) {
    const size_t got = fread(text + size, 1, room - size, file);
    size += got;
    if (got == 0) break;
    if (size < room) continue;
    char* more = realloc(text, (room *= 2) + 1);
    if (!more) free(text);
    text = more;
  }
  if (file && text && !ferror(file)) {
    fclose(file);
    text[size] = '\0';
    return text;
  }
  fprintf(stderr, "score_records: %s: cannot be read\n", path);
  if (file) fclose(file);
  free(text);
  return NULL;
}

/* Ends the lines of `text` and returns how many have something in them; `lines`, where not NULL, gets their starts. */
static int64_t split_lines(char* text, const char** lines) {
  int64_t count = 0;
  while (*text) {
    char* end = text + strcspn(text, "\r\n");
    const int last = *end == '\0';
    if (end != text) {
      if (lines) lines[count] = text;
      ++count;
    }
    if (lines) *end = '\0';
    if (last) break;
    text = end + 1;
  }
  return count;
}

static int failed(foretime_status status, const char* what) {
  if (status == FORETIME_OK) return 0;
  fprintf(stderr, "score_records: %s: %s: %s\n", what, foretime_status_name(status), foretime_last_error());
  return 1;
}

static int print_fastest(const foretime_model* model, const char* const* lines, const float* scores, int64_t count) {
  int64_t order[TOP];
  double seconds = 0.0;
  if (failed(foretime_rank(scores, count, TOP, order), "ranking")) return 1;
  for (int64_t i = 0; i < count && i < TOP; ++i) {
    const int64_t place = order[i];
    if (isinf(scores[place])) break; /* not scored, like all behind it */
    printf("%lld\trecord %lld\tscore %g", (long long)i + 1, (long long)place, (double)scores[place]);
    if (foretime_runtimes(model, &scores[place], 1, &seconds) == FORETIME_OK) printf("\t%g s", seconds);
    printf("\t%.60s\n", lines[place]);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: score_records BUNDLE COMPUTE_DAG RECORDS [THREADS]\n");
    return 2;
  }
  const foretime_options options = {.size = sizeof options, .threads = argc > 4 ? atoi(argv[4]) : 1, .max_states = 0};
  foretime_model* model = NULL;
  foretime_workload* workload = NULL;
  const char** lines = NULL;
  float* scores = NULL;
  int64_t unscored = 0;
  char* table = read_file(argv[2]);
  char* records = read_file(argv[3]);
  int result = 1;
  if (!table || !records) goto end;
  if (failed(foretime_open(argv[1], &options, &model), argv[1])) goto end;
  if (failed(foretime_workload_open(model, table, strlen(table), &workload), argv[2])) goto end;
  const int64_t count = split_lines(records, NULL);
  lines = malloc((size_t)(count + 1) * sizeof *lines);
  scores = malloc((size_t)(count + 1) * sizeof *scores);
  if (!lines || !scores) goto end;
  split_lines(records, lines);
  if (failed(foretime_score_records(workload, lines, NULL, count, scores, &unscored), argv[3])) goto end;
  if (unscored > 0)
    fprintf(stderr, "score_records: %lld of %lld records have no score, the first one is record %s\n", (long long)unscored,
            (long long)count, foretime_last_error());
  result = print_fastest(model, lines, scores, count);
end:
  free(scores);
  free(lines);
  free(records);
  free(table);
  foretime_workload_close(workload);
  foretime_close(model);
  return result;
}
