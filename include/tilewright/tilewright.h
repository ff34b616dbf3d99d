/* tilewright's C interface: open a model, describe it, run it on arrays of the caller.
 *
 *   tw_session *s;
 *   if (tw_open("net.onnx", NULL, 0, &s)) { puts(tw_last_error()); return 1; }
 *   tw_tensor x = {.name = "x", .dtype = TW_F32, .ndim = 2, .shape = {1, 784}, .stride = {784, 1}, .data = pixels};
 *   tw_tensor y = {.name = "y"};
 *   tw_shape(s, &x, 1, &y, 1);                             fills in dtype, ndim, shape and dense strides
 *   y.data = malloc(tw_bytes(&y));
 *   if (tw_run(s, &x, 1, &y, 1, NULL)) puts(tw_last_error());
 *   tw_close(s);
 *
 * Errors: every function that can fail returns a tw_status, and none throws or ends the process. After a failure
 * tw_last_error() of the same thread tells what happened.
 *
 * Ownership: arrays belong to the caller, and are used only during the call. What tw_open_memory and tw_open_source
 * are given is copied. A string from tw_describe belongs to the caller, who gives it to tw_free.
 *
 * Threads: all functions may be called from any thread. Calls of tw_run on one session take turns; sessions do not
 * disturb each other. tw_close must be the last call on its session, after all others have returned.
 */
#ifndef TILEWRIGHT_TILEWRIGHT_H
#define TILEWRIGHT_TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are the tool's exit codes (docs/errors.md). */
typedef enum {
  TW_OK = 0,
  TW_CHECK_FAILED = 1,
  TW_USAGE = 2,       /* an argument, a file, or a program with errors */
  TW_UNSUPPORTED = 3, /* the model needs what this version does not do */
  TW_NO_DEVICE = 4,   /* no such device, or not enough memory */
  TW_INTERNAL = 5,    /* our own fault */
  TW_INTERRUPTED = 130
} tw_status;

typedef enum {
  TW_F64 = 0,
  TW_F32 = 1,
  TW_F16 = 2,
  TW_BF16 = 3,
  TW_F8E4M3 = 4,
  TW_F8E5M2 = 5,
  TW_I8 = 6,
  TW_U8 = 7,
  TW_I32 = 8,
  TW_I64 = 9,
  TW_BOOL = 10 /* a byte, 0 or 1 */
} tw_dtype;

/* In whose memory an array is. */
enum { TW_CPU = 0, TW_CUDA = 1 };
enum { TW_MAX_DIMS = 8 };

typedef struct tw_session tw_session;

/* An array. Strides count elements, and may be 0 (inputs only) or negative. Arrays that are dense and row-major are used
 * in place, others are copied. `name` says which input or output it is; NULL: the one at this position. `capacity` is
 * the number of bytes that may be used from `data` on; 0: not told; it is checked against dense arrays. device TW_CUDA, with
 * the number of the GPU in device_id, is for sessions on that GPU; such arrays must be dense and row-major. A session on a GPU
 * takes arrays of the CPU too, and copies them. */
typedef struct {
  const char *name;
  int32_t dtype, ndim;
  int64_t shape[8], stride[8];
  void *data;
  int32_t device, device_id;
  int64_t capacity;
} tw_tensor;

/* Options: "device" (cpu, cuda, cuda:N), "threads" (0: physical cores), "isa" (base, avx2, avx512, neon), "machine" (name or path of
 * the machine file to plan for), "plan" (path of a plan as `tilewright plan -o` writes it, to follow), "fuse" (on, off: kernels of several reductions), "size.NAME" (fixes a free size), "program" (of a text with several), "without" (passes
 * to leave out, separated by commas). Another key is an error that lists these. */
typedef struct {
  const char *key, *value;
} tw_option;

/* What to open: a path, or bytes. is_text: 1 a text program, 0 ONNX, -1 what the bytes look like. constants: arrays whose
 * values are known now: weights that a text program declares, or inputs of a model that never change; they are packed
 * with the model and leave its inputs. A declared weight that is not given is an input, behind the others. */
typedef struct {
  const char *path; /* or NULL */
  const void *bytes;
  size_t size;
  int is_text;
  const tw_option *options;
  size_t option_count;
  const tw_tensor *constants;
  size_t constant_count;
} tw_source;

TW_API const char *tw_version(void); /* "0.1.0" */

/* The last failure on this thread as JSON: {"code": "E0301", "kind": "usage", "status": 2, "where": "x", "message": "...",
 * "hint": "..."}. Valid until the next call on this thread that fails. "{}" if none has. */
TW_API const char *tw_last_error(void);

TW_API tw_status tw_open(const char *path, const tw_option *options, size_t n, tw_session **out);
TW_API tw_status tw_open_memory(const void *bytes, size_t size, int is_text, const tw_option *options, size_t n,
                                tw_session **out);
TW_API tw_status tw_open_source(const tw_source *source, tw_session **out);

/* what: "inputs" or "outputs" ([{"name", "type", "shape"}], free sizes as text; "counted": the dims of an output whose
 * extents are known only after a run, where shape has the greatest), "plan", "explain". A plan is made for the sizes of
 * the last run, else for the default sizes. */
TW_API tw_status tw_describe(tw_session *session, const char *what, char **json);

/* The shapes of outputs for inputs of these shapes (their data is not looked at): fills dtype, ndim, shape and dense
 * strides of each output, which are found by name or position. Of an output whose extents depend on values, as the boxes
 * that a detector keeps do, these are the greatest that it can have. */
TW_API tw_status tw_shape(tw_session *session, const tw_tensor *in, size_t nin, tw_tensor *out, size_t nout);

/* All inputs must be given, outputs may be left out. Arrays may share memory: what is read is what was there before the
 * call. The first run with new sizes plans and packs for them.
 * stream: NULL on a CPU. On a GPU a CUstream (cudaStream_t): the run comes behind what is in it, and what is put there later
 * comes behind the run; where all arrays are on the GPU, tw_run then returns before it has run. With NULL it returns when all
 * is done, and comes behind what is in the default stream.
 * Outputs are given with the shapes of tw_shape. tw_run sets the shape of each to that of its results, which is smaller
 * where extents depend on values, and may be 0; strides stay, and elements beyond the shape mean nothing. Put the shape
 * back (tw_shape) before the next run into the same array. */
TW_API tw_status tw_run(tw_session *session, const tw_tensor *in, size_t nin, tw_tensor *out, size_t nout, void *stream);

/* Of a session on a GPU that has run: what ran last runs so many times more at the same place, without copies of inputs and
 * outputs; the seconds of each by the GPU's own clock. */
TW_API tw_status tw_time(tw_session *session, int runs, double *seconds);

TW_API size_t tw_bytes(const tw_tensor *dense); /* dtype and shape; 0 if they make no sense */
TW_API void tw_free(void *string);
TW_API void tw_close(tw_session *session); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
