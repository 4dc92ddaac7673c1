#include "comm/gradient_reducer.h"
