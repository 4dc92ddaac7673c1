#include "configs/load.h"
