import { Page } from '../../shared/page.tsx';

export function LivePage() {
  return <Page title="Live">{null}</Page>;
}
