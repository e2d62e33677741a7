/* How long this library waits, and why. The page docs/internals/io.md lists each wait with its owner. */
#ifndef HWIO_WAITS_H
#define HWIO_WAITS_H

/* A time of the clock that never comes: the wait ends as the program's own call would. */
#define HWIO_WAIT_UNBOUNDED_S 1e18

/* A sender waits at least so long for its receiver's verdict. Source: Natvig, Elster and Meyer, §III.C. */
#define HWIO_WAIT_VERDICT_S 0.010
/* Receivers have so long to begin to read; a rank that waits for a message polls it within this time. */
#define HWIO_WAIT_BEGINNING_S 0.020
/* The same before a file of a network file system changes: a node may not see at once that it has changed. */
#define HWIO_WAIT_CHANGE_S 2.0
/* A receiver on another node waits so long for a file as the hint describes it: attributes that a node has cached may be
 * older. */
#define HWIO_WAIT_ATTRIBUTES_S 3.0
/* A receive that takes longer than this, and than this part of the exchange, leaves time for a deferred exchange. */
#define HWIO_WAIT_IDLE_S 0.020
#define HWIO_WAIT_IDLE_PART 0.05
/* A write is deferred for this part of its senders' timeout. */
#define HWIO_WAIT_DEFERRED_PART 0.75
/* At the end of MPI, for messages that the program never receives, and for copies of them. */
#define HWIO_WAIT_FINISH_S 10.0
/* A job that ends waits so long for others that write the same profile; then it writes all the same. */
#define HWIO_WAIT_PROFILE_S 1.0
/* The first rank waits so long for ranks that MPI_Init has not waited for. */
#define HWIO_WAIT_RENDEZVOUS_S 0.2
/* Maximum of attempts, a millisecond apart, at a name whose owner doesn't listen yet, or no longer. */
#define HWIO_RENDEZVOUS_TRIES_MAX 1000

/* Time after which a change gives a file other times. */
#define HWIO_TICK_NS 10000000L
/* A rank that polls yields, and sleeps so long at times: on a machine with fewer processors than ranks, yielding alone
 * can starve the rank that is awaited. */
#define HWIO_NAP_NS 20000L

#endif
