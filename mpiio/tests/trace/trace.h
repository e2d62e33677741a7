/* Records a call; called by the generated wrappers of this core. */
#ifndef HWIO_TRACE_H
#define HWIO_TRACE_H

void hwio_trace(const char *name);

#endif
