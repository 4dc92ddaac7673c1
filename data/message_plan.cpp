#include "data/message_plan.h"
