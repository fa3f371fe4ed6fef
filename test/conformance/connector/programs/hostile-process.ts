/** Serves hostile destinations in a separate process, so that their own cost is not measured. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { COSTLY_PLACES, HOSTILE_PLACES, type HostilePlace, startServer } from './hostile-places.ts';

export interface ServedPlace {
  readonly place: HostilePlace;
  readonly port: number;
}

/** Starts one of each kind, and `each` of the servers that demand the maximum of work. */
export async function servePlaces(each: number) {
  const child = fork(fileURLToPath(import.meta.url), [String(each)], {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [ports] = (await once(child, 'message')) as [readonly number[]];
  return {
    places: placesOf(each).map((place, at): ServedPlace => ({ place, port: ports[at] ?? 0 })),
    async close() {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function placesOf(each: number): readonly HostilePlace[] {
  const oneOfEach = new Map(HOSTILE_PLACES.map((place) => [place.type, place]));
  return [...oneOfEach.values(), ...COSTLY_PLACES].flatMap((place) => Array<HostilePlace>(each).fill(place));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const servers = await Promise.all(placesOf(Number(process.argv[2])).map(({ serve }) => startServer(serve)));
  process.send?.(servers.map(({ port }) => port));
  process.on('disconnect', () => process.exit());
}
