import { onTestFinished } from 'vitest';
import { type Engines, engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';

/** A folder and a prefix on the engines of the run, both removed after the test. */
export async function isolatedEngines(): Promise<
  Engines & { readonly folder: string; readonly prefix: string }
> {
  const folder = await temporaryFolder();
  const prefix = freshPrefix();
  onTestFinished(async () => {
    await folder.remove();
    await removePrefix(prefix);
  });
  const found = engines();
  if (found === undefined) throw new Error('there are no engines');
  return { folder: folder.path, prefix, ...found };
}

export function never(): never {
  throw new Error('it is not there');
}
