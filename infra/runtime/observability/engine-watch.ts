import type { EngineHealth } from './engine-health.ts';

/** How often engines are asked, ms. */
const EVERY_MS = 5_000;

/** What an engine is asked; both reject while it does not do it. */
export interface EngineProbe {
  read(): Promise<unknown>;
  /** A write that changes nothing people see. Absent: writes of the process's own work tell. */
  write?(): Promise<unknown>;
}

/** Asks engines for a sign of life now and then, so that `/readyz` and `/metrics` know at once what they would wait for. */
export interface EngineWatch {
  close(): void;
}

/** An engine that is silent has one question under way, never more, and holds up no other. */
export function watchEngines(
  probes: Readonly<Record<string, EngineProbe>>,
  health: EngineHealth,
  everyMs = EVERY_MS,
): EngineWatch {
  const asking = new Set<string>();
  const ask = async (name: string, probe: EngineProbe) => {
    if (asking.has(name)) return;
    asking.add(name);
    health.asked(name);
    try {
      await probe.read();
      health.answered(name);
    } catch (error) {
      health.answered(name, error);
    }
    await probe.write?.().then(
      () => health.wrote(name),
      (error: unknown) => health.wrote(name, error),
    );
    asking.delete(name);
  };
  const askAll = () => {
    health.refresh();
    for (const [name, probe] of Object.entries(probes)) void ask(name, probe);
  };
  askAll();
  const timer = setInterval(askAll, everyMs).unref();
  return { close: () => clearInterval(timer) };
}
