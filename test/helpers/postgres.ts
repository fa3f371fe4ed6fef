import { EngineMissing, type RunningEngine } from '../engines/index.ts';
import { ownEngines } from './own-engines.ts';

/**
 * A PostgreSQL server for one spec file, which stops it. Undefined, with a loud warning, where the machine
 * has none and the tests may be skipped; never undefined in CI.
 */
export async function postgresServer(): Promise<RunningEngine | undefined> {
  const inCi = process.env.CI !== undefined;
  const { TRIBUTARY_TEST_ENGINES: wanted } = process.env;
  if ((wanted === '0' || wanted === 'none') && !inCi) return undefined;
  try {
    return await ownEngines().postgres.start();
  } catch (error) {
    if (inCi || !(error instanceof EngineMissing)) throw error;
    console.warn(`NO POSTGRESQL, its tests are SKIPPED: ${error.message}`);
    return undefined;
  }
}
