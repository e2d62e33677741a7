/*
 * What a transformation is expected to gain, in seconds, by the cost model of Natvig, Elster and Meyer, §IV. Its
 * parameters are measured when the job starts.
 */
#ifndef HWIO_MODEL_H
#define HWIO_MODEL_H

#include "engine.h"

/* So many operations of a context are done both ways with --io verify. */
#define HWIO_VERIFIED_MAX 2

/* All ranks of the job measure together. */
void hwio_model_start(void);
/* What is gained if so many bytes go by file instead of by messages from a root to so many ranks. */
double hwio_model_scatter_gain(size_t bytes, int ranks);
double hwio_model_gather_gain(size_t bytes, int ranks);
/* The same for one message, whose data has so many pieces in the file. */
double hwio_model_send_gain(size_t bytes, uint64_t pieces);
/* The same for a message that is written where it arrives. */
double hwio_model_receive_gain(size_t bytes);
/* How long a sender waits until its receiver wants its data. Source of the least: §III.C, 10 ms. */
double hwio_model_timeout_s(size_t bytes);
/* Whether a write of so many pieces, by different ranks, is quicker if they exchange them first. */
bool hwio_model_exchanges(uint64_t bytes, uint64_t pieces, bool is_shared);
/* Whether exchanges of successive writes may become one. */
bool hwio_model_defers_exchanges(void);
/* What was saved by an operation that took this long. */
double hwio_model_scatter_saved(size_t bytes, int ranks, double seconds);
double hwio_model_write_gain(size_t bytes, double seconds);

#endif
