/* The expected gain of a transformation, in seconds, by the cost model of Natvig, Elster and Meyer, §IV. Its parameters
 * are measured when the job starts. */
#ifndef HWIO_MODEL_H
#define HWIO_MODEL_H

#include "base/engine.h"

/* With --io verify, this many operations of a context are done both ways. */
#define HWIO_VERIFIED_MAX 2

/* Measures the parameters; called by all ranks of the job. */
void hwio_model_start(void);
/* Returns true if every pattern is transformed, whatever it costs: for tests. */
bool hwio_model_is_forced(void);
/* Returns the gain if `bytes` bytes are read from the file instead of sent from a root to `ranks` ranks. */
double hwio_model_scatter_gain(size_t bytes, int ranks);
double hwio_model_gather_gain(size_t bytes, int ranks);
/* The same for a broadcast to all ranks. `is_near`: each node reads its own memory; otherwise the ranks share the
 * reading. */
double hwio_model_broadcast_gain(size_t bytes, bool is_near);
struct hwio_file;
struct hwio_runs;
/* The same for one message, whose data is in these parts of a file. */
double hwio_model_send_gain(const struct hwio_runs *runs, const struct hwio_file *file);
/* The same for one piece of a file. */
double hwio_model_forward_gain(size_t bytes);
/* The same for a message whose receiver writes it to a file. */
double hwio_model_receive_gain(size_t bytes);
/* Returns how long a sender waits for its receiver's verdict. Source of the minimum: §III.C, 10 ms. */
double hwio_model_timeout_s(size_t bytes);
/* Returns true if ranks should exchange so many pieces before they write them. */
bool hwio_model_exchanges(uint64_t bytes, uint64_t pieces, bool is_shared);
/* Returns true if exchanges of successive writes may become one. */
bool hwio_model_defers_exchanges(void);
/* Returns the time that an operation of this duration has saved. */
double hwio_model_saved(size_t bytes, int ranks, double seconds);

#endif
