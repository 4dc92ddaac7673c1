#include "models/plan_tensors.h"
