import { duration, memory, number, setting } from './setting.ts';

/** What transformations may take of a machine. */
export const SANDBOX_SETTINGS = {
  sandboxProcesses: setting(
    'TRIBUTARY_SANDBOX_PROCESSES',
    '2',
    number(1, 64),
    'Processes that run transformations, per lane.',
  ),
  sandboxTime: setting(
    'TRIBUTARY_SANDBOX_TIME',
    '100ms',
    duration(10, 1_000),
    'How long a transformation may take for one event, and its source to load. The same on every process: an event near the limit may pass one of them and not another.',
  ),
  sandboxMemory: setting(
    'TRIBUTARY_SANDBOX_MEMORY',
    '64MiB',
    memory(16, 512),
    'Memory that a transformation may take, up to 512MiB. A process that runs transformations takes four times as much and 256 MiB at most.',
  ),
  sandboxUid: setting(
    'TRIBUTARY_SANDBOX_UID',
    '65534',
    number(0, 4_294_967_294),
    'User and group of those processes, and of those of the Segment pack, where Tributary runs as root; 0: root too. Where that user cannot read what they need, they run as Tributary does, and the log says so.',
  ),
} as const;
