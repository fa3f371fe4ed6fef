import { ConfigError, type Environment, readDevConfig } from '../config/config.ts';
import { runInOneProcess } from './serve.ts';

/**
 * `tributary dev`: runs as `tributary serve` does, with the development issuer, and a workspace, a write key and an ID token
 * that are printed.
 */
export async function dev(environment: Environment): Promise<number> {
  const config = readDevConfig(environment);
  if (!config.devIssuer)
    throw new ConfigError([
      'TRIBUTARY_DEV_ISSUER=0 switches off the development issuer, which this needs: tributary serve runs without',
    ]);
  const code = await runInOneProcess(config, 'dev', async () =>
    (await import('./quickstart.ts')).developmentForm(config),
  );
  if (code === 0)
    process.stdout.write(
      `\nStopped. Everything is kept in ${config.dataFolder}; the next start continues with it.\n`,
    );
  return code;
}
