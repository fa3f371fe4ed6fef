import { Tabs } from '@mantine/core';
import { DiscardsTab } from './discards-tab.tsx';
import { LoadingTab } from './loading-tab.tsx';
import { TablesTab } from './tables-tab.tsx';

interface Props {
  readonly workspaceId: string;
  readonly destinationId: string;
}

/** The tabs that only warehouses have. */
export function WarehouseTabs(props: Props) {
  return (
    <>
      <Tabs.Panel value="loads">
        <LoadingTab {...props} />
      </Tabs.Panel>
      <Tabs.Panel value="tables">
        <TablesTab {...props} />
      </Tabs.Panel>
      <Tabs.Panel value="discards">
        <DiscardsTab {...props} />
      </Tabs.Panel>
    </>
  );
}
