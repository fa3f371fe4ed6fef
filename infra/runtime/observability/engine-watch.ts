import { messageOf } from '@tributary/core';

/** How often engines are asked, ms. */
const EVERY_MS = 5_000;

/** Asks engines for a sign of life, so that `/readyz` can tell at once what it would have to wait for. */
export interface EngineWatch {
  /** What each engine said last, by its name. */
  said(): Readonly<Record<string, string>>;
  close(): void;
}

/** `probes` reject while the engine does not answer. */
export function watchEngines(
  probes: Readonly<Record<string, () => Promise<unknown>>>,
  everyMs = EVERY_MS,
): EngineWatch {
  const said = new Map(Object.keys(probes).map((name) => [name, 'not asked yet']));
  const asking = new Set<string>();
  const ask = async (name: string, probe: () => Promise<unknown>) => {
    if (asking.has(name)) return;
    asking.add(name);
    said.set(
      name,
      await probe().then(
        () => 'answers',
        (error: unknown) => `does not answer: ${messageOf(error)}`,
      ),
    );
    asking.delete(name);
  };
  const askAll = () => {
    for (const [name, probe] of Object.entries(probes)) void ask(name, probe);
  };
  askAll();
  const timer = setInterval(askAll, everyMs).unref();
  return {
    said: () => Object.fromEntries(said),
    close: () => clearInterval(timer),
  };
}
