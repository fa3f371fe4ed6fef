import { setFlagsFromString } from 'node:v8';

// Loaded by `--import`: every thread of the process prints a line for each collection of its heap.
setFlagsFromString('--trace-gc');
