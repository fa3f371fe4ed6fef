import { isForThePerson } from './faults.ts';

/** Runs what a command does; a fault of the place it runs in is told on standard error, and the exit code is 1. */
export async function tellingFaults(command: string, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!isForThePerson(error)) throw error;
    process.stderr.write(`tributary ${command}: ${error.message}\n`);
    return 1;
  }
}
