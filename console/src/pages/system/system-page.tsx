import { Page } from '../../shared/page.tsx';

export function SystemPage() {
  return <Page title="System">{null}</Page>;
}
