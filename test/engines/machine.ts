import { join } from 'node:path';

/**
 * What an engine is started for: one test, or a person who develops and a benchmark. An engine in Java that lives
 * briefly compiles at once and plainly, which halves the processor time of its start; it would be slower in the end.
 */
export type EngineLife = 'brief' | 'long';

/** What the launcher asks of the machine. */
export interface Machine {
  /** Where downloaded engines are kept between runs, outside of any checkout. */
  readonly cacheFolder: string;
  /** The folders in which Java may live, the preferred ones first: homes themselves, and folders of homes. */
  readonly javaHomes: readonly string[];
  readonly jvmFolders: readonly string[];
  /** Given to every engine in Java. */
  readonly javaFlags: readonly string[];
  /** Where a Docker engine would answer. */
  readonly dockerHost: string;
  /** The environment of the tools that download. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The environment of the engines: nothing in it that they could take for configuration. */
  readonly engineEnv: Readonly<Record<string, string>>;
}

/** For what is over soon: Java compiles at once and plainly, and collects garbage in one thread. */
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
