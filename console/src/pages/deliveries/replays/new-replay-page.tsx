import { Page } from '../../../shared/page.tsx';

export function NewReplayPage() {
  return <Page title="New replay">{null}</Page>;
}
