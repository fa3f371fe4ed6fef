import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const INDEX = fileURLToPath(new URL('./index.ts', import.meta.url));
const DRIVERS = /node_modules\/(kafkajs|ioredis|pg|@aws-sdk|@smithy|@segment)\//;
const LOADED = `import(process.argv[1]).then(() => console.log(JSON.stringify(Object.keys(require('node:module')._cache))))`;

test('no driver is loaded before the first delivery that needs it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', LOADED, INDEX]);
  const loaded: string[] = JSON.parse(stdout);
  expect(loaded.some((path) => path.includes('/undici/'))).toBe(true);
  expect(loaded.filter((path) => DRIVERS.test(path))).toEqual([]);
});
