/** Helpers for any module. Threads that only write import these alone: all of `core` takes ten times as long to load. */

export * from './chunks.ts';
export * from './concurrency.ts';
export * from './defined.ts';
export * from './errors.ts';
export * from './get-or-make.ts';
export * from './ids.ts';
export * from './json.ts';
export * from './time.ts';
