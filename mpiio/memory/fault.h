/* The page fault handler, and the program's own handler behind it. */
#ifndef HWIO_FAULT_H
#define HWIO_FAULT_H

#include "base/engine.h"

bool hwio_fault_start(void);

#endif
