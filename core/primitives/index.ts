/** What any module may need. Threads that only write import this alone: all of `core` takes a start ten times as long. */

export * from './chunks.ts';
export * from './errors.ts';
export * from './ids.ts';
export * from './json.ts';
export * from './time.ts';
