// Runs as a confined program: attempts forbidden operations, and prints the result of each.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';

const [secret = '', host = '', folder = '', here = ''] = process.argv.slice(2);

const ATTEMPTS: Readonly<Record<string, () => unknown>> = {
  'read a key of the data folder': () => readFileSync(secret),
  'list the data folder': () => readdirSync(folder),
  'list the root folder': () => readdirSync('/'),
  'read a file of the system': () => readFileSync('/etc/passwd'),
  'read the environment of the host': () => readFileSync(`/proc/${host}/environ`),
  'read the memory map of the host': () => readFileSync(`/proc/${host}/maps`),
  'read a file through /proc/self/root': () => readFileSync(`/proc/self/root${secret}`),
  'read a file by a path that climbs': () => readFileSync(join(here, '../../../..', secret)),
  'write to /tmp': () => writeFileSync('/tmp/tributary-filled', 'x'),
  'write beside its program': () => writeFileSync(join(here, 'planted.ts'), 'x'),
  'make a folder': () => mkdirSync('/tmp/tributary-made'),
  'lead a link out of its folder': () => symlinkSync(secret, join(here, 'link')),
  'start a process': () => execFileSync('/bin/true'),
  'start a thread': () => new Worker('1', { eval: true }),
  'reach into node': () => (process as unknown as { binding(name: string): unknown }).binding('fs'),
  'signal the host': () => process.kill(Number(host), 0),
};

const outcomes = Object.entries(ATTEMPTS).map(([name, attempt]) => {
  try {
    attempt();
    return [name, 'done'];
  } catch (error) {
    return [name, error instanceof Error && 'code' in error ? error.code : String(error)];
  }
});
process.stdout.write(JSON.stringify(Object.fromEntries(outcomes)));
