import { describeConfig } from '../config/config.ts';

/** `tributary config` */
export async function printConfig(): Promise<number> {
  process.stdout.write(`${describeConfig()}\n`);
  return 0;
}
