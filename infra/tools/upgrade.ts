import { type Environment, readCommandConfig } from '../runtime/config/config.ts';
import { nameInstallation } from '../runtime/wiring/installation.ts';
import { openLogAndCatalog, print, runCommand } from './command.ts';

/**
 * `tributary upgrade`: finishes the upgrade of an installation to this release, once none of its processes is of an older
 * one. Writes to the catalog what older releases do not know and would stop at, so there is no way back to them. Without
 * effect where that was done. Running processes of this release need not stop.
 */
export async function upgrade(environment: Environment): Promise<number> {
  return runCommand('upgrade', readCommandConfig(environment), async (tools) => {
    const { catalog } = await openLogAndCatalog(tools);
    const { installation: known, isUpgraded } = catalog.state;
    const text = isUpgraded
      ? `the installation ${known} is of this release already`
      : catalog.state.organizationCount === 0
        ? 'there is no installation yet: a new one is of this release from its first start'
        : `this is the installation ${await nameInstallation(catalog, tools.deadline, 'operator:upgrade')} now: its stores are marked as each process starts next, and no older release can be gone back to`;
    print(text);
    return 0;
  });
}
