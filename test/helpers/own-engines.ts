import {
  describeMachine,
  EngineMissing,
  enginesOf,
  type Machine,
  type RunningEngine,
} from '../engines/index.ts';

/** This machine, for engines that live no longer than a test. */
export function testMachine(): Machine {
  return describeMachine(process.env, 'brief');
}

/** Engines that a test starts and stops itself. */
export function ownEngines(): ReturnType<typeof enginesOf> {
  return enginesOf(testMachine());
}

/**
 * A server for one spec file, which stops it. Undefined, with a loud warning, where the machine has none and the tests may be
 * skipped; never undefined in CI.
 */
export async function engineOfFile(name: 'postgres' | 'clickhouse'): Promise<RunningEngine | undefined> {
  const inCi = process.env.CI !== undefined;
  const { TRIBUTARY_TEST_ENGINES: wanted } = process.env;
  if ((wanted === '0' || wanted === 'none') && !inCi) return undefined;
  try {
    return await ownEngines()[name].start();
  } catch (error) {
    if (inCi || !(error instanceof EngineMissing)) throw error;
    console.warn(`NO ${name.toUpperCase()}, its tests are SKIPPED: ${error.message}`);
    return undefined;
  }
}
