/* The page fault handler, and the program's own handler behind it. */
#ifndef HW_FAULT_H
#define HW_FAULT_H

#include "../engine.h"

bool hw_fault_start(void);

#endif
