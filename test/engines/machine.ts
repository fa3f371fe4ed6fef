import { join } from 'node:path';

/**
 * The purpose of an engine: one test, or a developer's session or benchmark. A short-lived Java engine uses
 * only the fast JIT compiler, which halves the processor time of its start; it would be slower in the long
 * run.
 */
export type EngineLife = 'brief' | 'long';

/** The launcher's view of the machine. */
export interface Machine {
  /** Where downloaded engines are kept between runs, outside of any checkout. */
  readonly cacheFolder: string;
  /** Candidate folders for Java, the preferred ones first: homes themselves, and folders of homes. */
  readonly javaHomes: readonly string[];
  readonly jvmFolders: readonly string[];
  /** Passed to every engine in Java. */
  readonly javaFlags: readonly string[];
  /** The address of a Docker engine, if there is one. */
  readonly dockerHost: string;
  /** The environment of the download tools. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The environment of the engines, without variables that they could take for configuration. */
  readonly engineEnv: Readonly<Record<string, string>>;
}

/** For short-lived processes: only the fast JIT compiler, and garbage collection in one thread. */
export const COMPILED_PLAINLY = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

export function describeMachine(
  env: Readonly<Record<string, string | undefined>>,
  life: EngineLife = 'long',
): Machine {
  const home = env.HOME ?? '/tmp';
  return {
    cacheFolder: join(env.XDG_CACHE_HOME || join(home, '.cache'), 'tributary', 'engines'),
    javaHomes: env.JAVA_HOME ? [env.JAVA_HOME] : [],
    jvmFolders: ['/usr/lib/jvm', '/opt'],
    javaFlags: ['-XX:-UsePerfData', ...(life === 'brief' ? COMPILED_PLAINLY : [])],
    dockerHost: env.DOCKER_HOST || 'unix:///var/run/docker.sock',
    env,
    engineEnv: { PATH: env.PATH ?? '/usr/local/bin:/usr/bin:/bin', HOME: home },
  };
}
