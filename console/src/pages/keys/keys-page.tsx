import { Page } from '../../shared/page.tsx';

export function KeysPage() {
  return <Page title="Keys">{null}</Page>;
}
